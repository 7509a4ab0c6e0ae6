"""All assets of the lineage, with what they need to run."""

from __future__ import annotations

import gc
from functools import cache

import dagster as dg

from eagle_assets.defs.draft_vocabulary import draft_vocabulary
from eagle_assets.defs.exports import exports
from eagle_assets.defs.judged_sequences import judged_sequences
from eagle_assets.defs.partitions import CONFIGURED
from eagle_assets.defs.presentation import presented
from eagle_assets.defs.prompts import prompts
from eagle_assets.defs.provider_calibration import provider_calibration
from eagle_assets.defs.raw_responses import raw_responses
from eagle_assets.defs.resources import Project
from eagle_assets.defs.run_statistics import run_statistics
from eagle_assets.defs.schedules import collect_dataset, conclude, datasets_changed, killed_runs, schedules_of
from eagle_assets.defs.token_sequences import token_sequences
from eagle_assets.defs.tokenizer_report import tokenizer_report
from eagle_assets.defs.training_shards import training_shards


@cache
def the_definitions() -> dg.Definitions:
    """Steps run in the process of their run: a step of its own process would cost 1.5 s to start."""
    definitions = dg.Definitions(
        assets=presented(
            [
                tokenizer_report,
                provider_calibration,
                prompts,
                raw_responses,
                token_sequences,
                judged_sequences,
                training_shards,
                draft_vocabulary,
                exports,
                run_statistics,
            ]
        ),
        jobs=[collect_dataset, conclude],
        schedules=schedules_of(CONFIGURED),
        sensors=[datasets_changed, killed_runs],
        resources={"project": Project()},
        executor=dg.in_process_executor,
    )
    gc.freeze()  # none of what is loaded by now ever becomes garbage that a run would have to look for
    return definitions
