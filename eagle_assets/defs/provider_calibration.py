"""`provider_calibration`: who may answer, at what price, and what is known of how they serve."""

import asyncio
from typing import TYPE_CHECKING, Any

import dagster as dg
import msgspec

from eagle_assets.configuration import ALWAYS_EXCLUDED, Configuration, Settings
from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.resources import Project
from eagle_assets.lake.audit import Check, Published
from eagle_assets.lake.version import new_version
from eagle_assets.openrouter.origin import REQUANTISED

if TYPE_CHECKING:
    from eagle_assets.openrouter.endpoints import Endpoint


@dg.asset(
    group_name="preflight",
    kinds={"json"},
    tags={"stage": "provider_calibration"},
    check_specs=blocking_checks(
        "provider_calibration",
        {"providers_allowed": "Routing leaves somebody to answer, and nobody who serves requantised weights."},
    ),
)
def provider_calibration(context: dg.AssetExecutionContext, project: Project) -> Events:
    """The target model's endpoints at OpenRouter, with prices, and which of them the routing allows."""
    from eagle_assets.openrouter.endpoints import allowed_endpoints

    configuration = project.configuration
    with refusals(), new_version(project.home, "provider_calibration", None, context.run.run_id) as version:
        endpoints = asyncio.run(_listed_endpoints(project.settings, configuration.target))
        allowed = allowed_endpoints(endpoints, configuration.routing)
        version.write_json("endpoints.json", endpoints)
        audit = version.audit(
            [providers_allowed(endpoints, allowed, configuration)],
            counts={"endpoints": len(endpoints), "allowed": len(allowed)},
            identity=msgspec.json.encode(configuration.routing.as_request()).decode(),
        )
        yield from events_of(audit, {"endpoints": _table(endpoints, allowed)})


async def _listed_endpoints(settings: Settings, target: str) -> "tuple[Endpoint, ...]":
    from eagle_assets.openrouter.endpoints import read_endpoints
    from eagle_assets.openrouter.timing import Timing
    from eagle_assets.openrouter.transport import Server

    key = settings.api_key.get_secret_value() if settings.api_key is not None else ""
    async with Server(settings.base_url, key, 1, Timing()) as server:
        status, document = await server.get(f"models/{target}/endpoints")
    if status != 200:
        raise dg.Failure(
            f"{settings.base_url} does not list the endpoints of {target} (status {status}): look at "
            "OPENROUTER_BASE_URL, at `target` in the datasets file, and at the network",
            allow_retries=False,
        )
    return read_endpoints(document)


def published_endpoints(published: Published) -> "tuple[Endpoint, ...]":
    from eagle_assets.openrouter.endpoints import Endpoint

    return msgspec.json.decode(published.path("endpoints.json").read_bytes(), type=tuple[Endpoint, ...])


def providers_allowed(
    endpoints: "tuple[Endpoint, ...]", allowed: "tuple[Endpoint, ...]", configuration: Configuration
) -> Check:
    wrong = [e for e in allowed if e.slug in ALWAYS_EXCLUDED or e.quantization in REQUANTISED]
    if wrong:
        names = ", ".join(sorted({e.slug for e in wrong}))
        sentence = f"{names} would be asked, and serve requantised weights: add them to routing.ignore"
    elif not allowed:
        sentence = f"routing leaves none of {len(endpoints)} endpoints of {configuration.target}: loosen it"
    else:
        sentence = f"{len(allowed)} of {len(endpoints)} endpoints may answer, none with requantised weights"
    return Check(
        "providers_allowed",
        bool(allowed) and not wrong,
        sentence,
        {"endpoints": len(endpoints), "allowed": len(allowed), "requantised": len(wrong)},
        tuple({"endpoint": e.tag, "quantization": e.quantization} for e in wrong),
    )


def _table(endpoints: "tuple[Endpoint, ...]", allowed: "tuple[Endpoint, ...]") -> dg.MetadataValue:
    rows: list[dict[str, Any]] = [
        {
            "provider": e.provider,
            "tag": e.tag,
            "quantization": e.quantization or "not said",
            "prompt $/M": round(e.price.prompt * 1e6, 4),
            "completion $/M": round(e.price.completion * 1e6, 4),
            "may answer": e in allowed,
        }
        for e in endpoints
    ]
    return dg.MetadataValue.table([dg.TableRecord(row) for row in rows]) if rows else dg.MetadataValue.null()
