"""`draft_vocabulary`: the ids that a drafter can propose."""

import dagster as dg

from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.presentation import vocabulary_metadata
from eagle_assets.defs.resources import Project
from eagle_assets.lake.audit import require_all


@dg.asset(
    deps=[dg.AssetDep("training_shards", partition_mapping=dg.AllPartitionMapping())],
    group_name="training",
    kinds={"numpy", "parquet"},
    tags={"stage": "draft_vocabulary"},
    check_specs=blocking_checks(
        "draft_vocabulary",
        {"mapping_is_consistent": "`d2t` and `t2d` name the same ids: all markers and the most frequent ones."},
    ),
)
def draft_vocabulary(context: dg.AssetExecutionContext, project: Project) -> Events:
    """The ids that a drafter can propose, chosen by how often they were generated.

    Token frequencies over the shards of all datasets, and the draft vocabulary: `d2t`, `t2d`. Counts every dataset
    whose shards have a good and current audit; the others do not take part, and are named. Only files of shards that
    are new are counted.
    """
    import numpy as np

    from eagle_assets.lake.version import new_version
    from eagle_assets.targets.kimi import target_named
    from eagle_assets.training.draft_vocabulary import (
        NothingToCount,
        choose_draft_vocabulary,
        coverage_curve,
        mapping_is_consistent,
        write_draft_vocabulary,
    )
    from eagle_assets.training.part_counts import count_in_parts

    target = target_named(project.configuration.target)
    with (
        refusals(NothingToCount),
        new_version(project.home, "draft_vocabulary", None, context.run.run_id) as version,
    ):
        shards, closed = require_all(project.home, "training_shards", DATASETS.get_partition_keys())
        of_dataset = {
            str(published.audit.dataset): count_in_parts(published, target.vocabulary.size) for published in shards
        }
        counts = np.sum([np.zeros(target.vocabulary.size, np.int64), *of_dataset.values()], axis=0)
        chosen = choose_draft_vocabulary(counts, target.markers)
        d2t, t2d, *others = write_draft_vocabulary(chosen, counts, version.folder)
        version.add(d2t, t2d, *others)
        check = mapping_is_consistent(np.load(d2t), np.load(t2d), counts, target.markers)
        covered = {name: float(n[chosen.t2d].sum() / max(n.sum(), 1)) for name, n in of_dataset.items()}
        curve = coverage_curve(counts, target.markers)
        tabled = {
            **{f"coverage_of_{name}": share for name, share in covered.items()},
            **{f"coverage_at_{ids}_ids": share for ids, share in curve.items()},
        }
        audit = version.audit(
            [check],
            inputs=shards,
            counts={"datasets": len(shards), **tabled},
            vocabulary=target.vocabulary.sha256,
        )
        shown = vocabulary_metadata(counts[counts > 0].tolist(), chosen.d2t.size, covered, curve)
        yield from events_of(audit, {**shown, "left out": "; ".join(closed) or "no dataset"}, tabled)
