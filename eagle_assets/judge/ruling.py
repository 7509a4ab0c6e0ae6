"""What the judge decides of providers, and what is learnt of it: over all responses together, wherever they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from eagle_assets.judge.arbitration import arbitrate, cost_of_arbitration
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.habits import Beginning, Habits, cost_of_habits, habits_of
from eagle_assets.judge.scan import PLANTED, Experience, Scan, experience
from eagle_assets.judge.scoring import Cost
from eagle_assets.judge.surprise import Trial
from eagle_assets.judge.variants import KINDS
from eagle_assets.judge.white_space import Witness, cost_of_edges, weigh_edges
from eagle_assets.reconstruction.calibrating.decisions import Arbitrations, decisions
from eagle_assets.reconstruction.contests import Contest
from eagle_assets.targets.target import Target

Say = Callable[[str], object]
"""Takes a sentence, such as what something costs before it is asked."""


class Responses(Protocol):
    """All responses, or of each provider a sample, as the judge is asked about them. Each of these is read anew
    whenever it is wanted, so that none is kept."""

    def contests(self) -> Iterator[Contest]:
        """What conventions that texts and counts left standing make of a response."""
        ...

    def take(self, decided: Arbitrations) -> None:
        """What was decided holds for all that is read from now on."""
        ...

    def witnesses(self) -> Iterator[Witness]:
        """What may have been taken away at the ends of texts."""
        ...

    def beginnings(self) -> Iterator[Beginning]:
        """What trusted texts begin with."""
        ...

    def proven(self) -> Iterator[Trial]:
        """Ids that are proven."""
        ...


def decide(responses: Responses, bench: Bench, target: Target, say: Say) -> Arbitrations:
    """What is open of the providers, and what the judge says of it. What it costs is said before it is asked."""
    _say_cost(say, "rival conventions", cost_of_arbitration(responses.contests, bench))
    decided = decisions(arbitrate(responses.contests, bench), {})
    responses.take(decided)
    _say_cost(say, "white space at the ends of texts", cost_of_edges(responses.witnesses, bench))
    edges = weigh_edges(responses.witnesses, bench, target)
    if edges:
        decided = decisions({key: found.rivals for key, found in decided.items()}, edges)
        responses.take(decided)
    return decided


def learn(responses: Responses, bench: Bench, target: Target, say: Say) -> tuple[Habits, Experience]:
    """What providers put ahead of their texts, and how far the judge's surprise can be believed. What it costs is said
    before it is asked."""
    _say_cost(say, "blanks ahead of texts", cost_of_habits(responses.beginnings, bench))
    habits = habits_of(responses.beginnings, bench)
    scan = Scan(bench, target)
    say(f"proven sequences, to measure the judge by: {scan.cost_in_words(responses.proven)}")
    say(f"{PLANTED} of these once more with each of {len(KINDS)} kinds of errors, at most")
    return habits, experience(scan, responses.proven, target)


def _say_cost(say: Say, what: str, cost: Cost) -> None:
    if cost.questions or cost.known:
        say(f"{what} before the target: at most {cost}")
