"""What one run may ask and spend: set by the schedule that launches it, or by a person in the launchpad."""

from typing import TYPE_CHECKING, TypedDict

import dagster as dg
from pydantic import Field

from eagle_assets.configuration import OpenRouterDataset

if TYPE_CHECKING:
    from eagle_assets.openrouter.entries import Tick


class TickArguments(TypedDict):
    """Arguments of `collect_missing`."""

    tick: "Tick | None"
    limit: int | None


class RunLimits(dg.Config):
    """The limits of one run; the budget of the datasets file holds besides."""

    max_requests: int | None = Field(default=None, gt=0, description="Prompts that this run may ask; all by default.")
    max_usd: float | None = Field(default=None, gt=0, description="Dollars that this run may spend at worst.")

    def as_arguments(self, run_id: str) -> TickArguments:
        """What the collection takes; the run is a tick of its own where it may only spend so much."""
        from eagle_assets.openrouter.entries import Tick

        return {"tick": Tick(run_id, self.max_usd) if self.max_usd else None, "limit": self.max_requests}


def limits_of_a_tick(dataset: OpenRouterDataset) -> dict[str, int | float]:
    """`limit_per_tick` and `budget_usd_per_tick` of the datasets file as they stand in run config and tags."""
    limits = {"max_requests": dataset.limit_per_tick, "max_usd": dataset.budget_usd_per_tick}
    return {name: limit for name, limit in limits.items() if limit is not None}


def run_config(limits: dict[str, int | float]) -> dict[str, object]:
    """Run config that gives the collection these limits."""
    return {"ops": {"raw_responses": {"config": limits}}}
