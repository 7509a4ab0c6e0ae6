"""`tokenizer_report`: can this machine turn text into the target model's ids at all?"""

import dagster as dg

from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.resources import Project
from eagle_assets.lake.audit import Check


@dg.asset(
    group_name="preflight",
    kinds={"json"},
    tags={"stage": "tokenizer_report"},
    check_specs=blocking_checks(
        "tokenizer_report",
        {
            "vocabulary_is_official": "The embedded vocabulary is the official one, byte for byte.",
            "special_tokens_roundtrip": "Every special token, looked up by its text, roundtrips.",
            "full_output_roundtrips": "Whole outputs, their markers included, roundtrip.",
            "encoders_agree": "Independent encoders give the same ids on a corpus of hard strings.",
        },
    ),
)
def tokenizer_report(context: dg.AssetExecutionContext, project: Project) -> Events:
    """Proof that text becomes the right ids on this machine.

    The article's three sections and its four further risks, run on the real vocabulary, as one JSON file. Everything
    downstream depends on the vocabulary that is proved here.
    """
    from eagle_assets.lake.version import new_version
    from eagle_assets.targets.report import tokenizer_report as make_report
    from eagle_assets.targets.vocabulary import kimi_vocabulary

    with refusals(), new_version(project.home, "tokenizer_report", None, context.run.run_id) as version:
        report = make_report()
        version.write_json("report.json", report.to_dict())
        audit = version.audit(
            [
                Check(g.name, g.passed, g.sentence, {n: v for n, v in g.numbers.items() if not isinstance(v, str)})
                for g in report.gates
            ],
            identity=kimi_vocabulary().sha256,
            vocabulary=kimi_vocabulary().sha256,
        )
        proved = "\n".join(f"- **{gate.name}**: {gate.sentence}" for gate in report.gates)
        shown = {"what was proved": dg.MetadataValue.md(proved), "report": dg.MetadataValue.md(report.to_markdown())}
        yield from events_of(audit, shown)
