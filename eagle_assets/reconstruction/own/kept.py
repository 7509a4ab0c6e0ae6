"""What was made of the team's own outputs, kept as long as these and the code stay the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from eagle_assets.durability import write_atomically
from eagle_assets.lake.kept import keep_only
from eagle_assets.reconstruction.own.known_outputs import KnownOutput

Made = TypeVar("Made")


def kept(make: Callable[[], Made], kind: type[Made], outputs: Sequence[KnownOutput], folder: Path, code: str) -> Made:
    """What `make` gives, of this kind, from `folder` where it was made of the same outputs by the same code (a digest);
    nothing else is kept there."""
    outputs_digest = hashlib.sha256(msgspec.msgpack.encode([(o.prompt_ids, o.output_ids) for o in outputs])).hexdigest()
    path = folder / f"{outputs_digest[:24]}-{code}"
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        made = make()
    write_atomically(path, msgspec.msgpack.encode(made))
    keep_only(folder, {path.name})
    return made
