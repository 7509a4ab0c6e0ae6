"""What the audit of `judged_sequences` looks at, and what it counts."""

from __future__ import annotations

from eagle_assets.judge.bench import Bench
from eagle_assets.judge.scan import Experience
from eagle_assets.judge.tally import Tally
from eagle_assets.lake.audit import Check

WORST = 10


def surprises_below_threshold(tally: Tally, learnt: Experience, limit: float) -> Check:
    """Whether few enough trusted sequences surprise the target: more than `max_residual_error` of them would show that
    the stated error of `consistent` is not true."""
    share = tally.alarms / tally.scanned if tally.scanned else 0.0
    least, most = learnt.error_behind(tally.alarms, tally.scanned)
    return Check(
        "surprises_below_threshold",
        share <= limit,
        f"{tally.alarms} of {tally.scanned} consistent sequences surprise the target model "
        f"({tally.changes['repaired']} repaired, {tally.changes['contradicted']} contradicted); {limit:.2%} is the "
        f"limit. Of {learnt.threshold.proven} proven ones {learnt.false_alarms} do",
        {
            "scanned": tally.scanned,
            "alarms": tally.alarms,
            "share": share,
            "limit": limit,
            "error_by_the_target": least,
            "error_by_the_target_at_most": most,
        },
        tuple(tally.worst[:WORST]) if share > limit else (),
    )


def counts_of(tally: Tally, learnt: Experience, bench: Bench) -> dict[str, float]:
    """What the audit counts."""
    shares = learnt.sensitivity.shares
    return {
        **{verdict: float(number) for verdict, number in tally.verdicts().items()},
        "scanned": tally.scanned,
        "settled": tally.changes["settled"],
        "repaired": tally.changes["repaired"],
        "contradicted_by_the_target": tally.changes["contradicted"],
        "proven": learnt.threshold.proven,
        "false_alarms": learnt.false_alarms,
        "false_alarms_expected": learnt.threshold.expected,
        "planted": learnt.sensitivity.planted,
        "found_of_planted": learnt.sensitivity.overall,
        **{f"found_of_planted {kind}": share.found / share.of for kind, share in shares.items()},
        "refused_by_the_judge": bench.refused,
    }
