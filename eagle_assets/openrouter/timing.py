"""How long to wait for what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, and numbers of tries. A wait between attempts doubles from `wait_first` up to `wait_most`.

    `first_byte` runs until the answer begins, `between_bytes` from each piece to the next (the router sends keep-alive
    comments meanwhile), `total` over one whole attempt. `generation_*` are for `/generation`, which answers 404 for up
    to minutes after an exchange (FACTS 3).

    `room_wait` is how long to wait for other processes to give back what they reserved, `failures_in_a_row` after how
    many nothing more is asked, `grace` how long what is in flight may go on after an interruption. `meter_quiet` is how
    long the key's meter must stand still before it is believed. `body_most` is in bytes: far beyond any answer that
    `max_tokens` allows.
    """

    connect: float = 15.0
    first_byte: float = 120.0
    between_bytes: float = 90.0
    total: float = 1_800.0
    attempts: int = 5
    wait_first: float = 1.0
    wait_most: float = 60.0
    generation_tries: int = 6
    generation_wait_first: float = 0.5
    room_wait: float = 10.0
    failures_in_a_row: int = 40
    grace: float = 8.0
    meter_quiet: float = 20.0
    body_most: int = 64 << 20
