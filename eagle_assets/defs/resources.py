"""What assets take from outside: the user's settings, read when an asset runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from eagle_assets.configuration import Configuration, Dataset, Settings
from eagle_assets.defs.liveness import mark_alive
from eagle_assets.lake.home import Home
from eagle_assets.openrouter.written_routing import load_with_written_routing

if TYPE_CHECKING:
    from eagle_assets.lake.catalogue import LedgerTotal


class Project(dg.ConfigurableResource):
    """The environment, the datasets file that it names, and the home. A run that has it is marked as alive."""

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        if context.run is not None:
            mark_alive(self.home, context.run.run_id)

    @property
    def settings(self) -> Settings:
        return Settings()

    @property
    def configuration(self) -> Configuration:
        """The datasets file with the home's routing file laid over it."""
        return load_with_written_routing(self.settings.datasets_file, self.home.root)

    @property
    def home(self) -> Home:
        return Home(self.settings.home)

    def ledger_totals(self) -> list[LedgerTotal]:
        """Spent, reserved and left, of each bought dataset and of all together. Raises LedgerError."""
        from eagle_assets.lake.catalogue import LedgerTotal
        from eagle_assets.openrouter.ledger import budget_totals

        totals = budget_totals(self.home.root, self.configuration)
        return [
            LedgerTotal(name, amounts.spent_usd, amounts.reserved_usd, amounts.left_usd)
            for name, amounts in (*totals.datasets.items(), (None, totals.all))
        ]

    def dataset(self, name: str) -> Dataset:
        """Raises dagster's Failure where the datasets file no longer has this dataset."""
        datasets = self.configuration.datasets
        if name not in datasets:
            raise dg.Failure(
                f"dataset {name} is not in {self.settings.datasets_file}; reload the definitions", allow_retries=False
            )
        return datasets[name]
