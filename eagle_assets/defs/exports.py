"""`exports`: the shards as folders that trainers take."""

from typing import TYPE_CHECKING

import dagster as dg

from eagle_assets.configuration import Export
from eagle_assets.defs.gates import refusals
from eagle_assets.defs.resources import Project

if TYPE_CHECKING:
    from eagle_assets.training.exports.export import Exported

DEFAULT = {"speculators": Export(format="speculators")}


@dg.asset(
    deps=[dg.AssetDep("training_shards", partition_mapping=dg.AllPartitionMapping())],
    group_name="training",
    kinds={"json"},
    tags={"stage": "exports"},
)
def exports(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    """The shards as folders that trainers take, where somebody asked for them.

    A folder for each export under `exports` in the datasets file, with its manifest and draft vocabulary. Without that
    key: one for speculators. Takes every dataset whose shards have a good and current audit; the others are named. A
    folder is named after its content, appears whole, and supersedes the one before.
    """
    from eagle_assets.targets.kimi import target_named
    from eagle_assets.training.exports.of_home import export_into_home
    from eagle_assets.training.exports.request import ExportError

    configuration = project.configuration
    target, of_file = target_named(configuration.target), frozenset(configuration.datasets)
    made: dict[str, Exported] = {}
    with refusals(ExportError):
        for name, options in (configuration.exports or DEFAULT).items():
            made[name] = export_into_home(project.home, target, name, options, of_file)
            for note in made[name].notes:
                context.log.warning(f"{name}: {note}")
    manifests = [exported.manifest for exported in made.values()]
    return dg.MaterializeResult(
        metadata={
            "exports": dg.MetadataValue.table([_record(name, exported) for name, exported in made.items()]),
            "rows": sum(manifest["rows"] for manifest in manifests),
            "tokens": sum(manifest["tokens"] for manifest in manifests),
            "covered_percent": round(100 * min(m["draft_vocabulary"]["coverage"] for m in manifests), 2),
            "path": dg.MetadataValue.path(project.home.exports),
            "left out": "; ".join(note for exported in made.values() for note in exported.notes) or "no dataset",
        },
        data_version=dg.DataVersion("-".join(manifest["plan"][:12] for manifest in manifests)),
    )


def _record(name: str, exported: "Exported") -> dg.TableRecord:
    manifest = exported.manifest
    return dg.TableRecord(
        {
            "export": name,
            "format": manifest["format"],
            "datasets": ", ".join(manifest["datasets"]),
            "rows": manifest["rows"],
            "tokens": manifest["tokens"],
            "covered %": round(100 * manifest["draft_vocabulary"]["coverage"], 2),
            "folder": str(exported.folder),
            "written": "no, it was there" if exported.was_there else "yes",
        }
    )
