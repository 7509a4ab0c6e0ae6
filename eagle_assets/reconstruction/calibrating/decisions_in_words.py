"""What the target model decided about a provider, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from eagle_assets.reconstruction.calibrating.decisions import Arbitration, Decisions, Trimming
from eagle_assets.reconstruction.calibrating.rules import in_words


def decisions_in_words(decided: Decisions) -> Iterator[str]:
    """A sentence for each rival that was refuted, and for each edge."""
    yield from map(arbitration_in_words, decided.rivals)
    yield from map(trimming_in_words, decided.trimmings.values())


def arbitration_in_words(found: Arbitration) -> str:
    chosen, refuted = found.log_likelihoods
    return (
        f"{found.chosen}, not {found.refuted}: {found.nats:.1f} nats over {found.responses} responses, an error of at "
        f"most {found.error:.1%}; where their ids differ the target gives them {chosen:.1f} and {refuted:.1f} nats"
    )


def trimming_in_words(found: Trimming) -> str:
    taken = found.takes_away
    does = "keeps white space" if taken < 0.5 else "takes white space away"
    return (
        f"it {does} at the {in_words(found.edge)}: {abs(found.nats):.1f} nats over {found.responses} responses, an "
        f"error of {min(taken, 1 - taken):.1%}; by what the target writes {found.lost_any:.1%} of the texts lost some"
    )
