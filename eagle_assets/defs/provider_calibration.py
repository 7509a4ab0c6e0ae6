"""`provider_calibration`: who may answer, at what price, and what is known of how they serve."""

import asyncio
from collections.abc import Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

import dagster as dg
import msgspec

from eagle_assets.configuration import ALWAYS_EXCLUDED, Configuration, Settings, load_configuration, revealed
from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.resources import Project
from eagle_assets.lake.audit import Check

if TYPE_CHECKING:
    from eagle_assets.defs.standing import Standing
    from eagle_assets.openrouter.endpoints import Endpoint
    from eagle_assets.openrouter.probing import Probed


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
    """Who may answer, at what price, and how they serve.

    The target model's endpoints at OpenRouter, what their answers to probes prove, and the routing that follows. Each
    provider is asked the same few probes once, for some tenths of a cent, within the budget. The routing goes into
    `routing.yaml` in the home, where a person can overrule it.
    """
    from eagle_assets.defs.standing import standings
    from eagle_assets.lake.version import new_version
    from eagle_assets.openrouter.endpoints import allowed_endpoints
    from eagle_assets.openrouter.ledger import LedgerError
    from eagle_assets.openrouter.record_file import JournalError
    from eagle_assets.openrouter.written_routing import routing_path, routing_text, write_routing

    configuration, home = load_configuration(project.settings.datasets_file), project.home
    with (
        refusals(JournalError, LedgerError),
        new_version(home, "provider_calibration", None, context.run.run_id) as version,
    ):
        endpoints = asyncio.run(_listed_endpoints(project.settings, configuration.target))
        ranked = standings(endpoints, _probed(project, configuration, endpoints))
        if not write_routing(home.root, routing_text([standing.advice() for standing in ranked])):
            context.log.warning(f"{routing_path(home.root)} was changed by hand: it is used as it is")
        effective = project.configuration
        allowed = allowed_endpoints(endpoints, effective.routing)
        version.write_json("endpoints.json", endpoints)
        version.write_json("standings.json", [standing.to_dict() for standing in ranked])
        audit = version.audit(
            [providers_allowed(endpoints, allowed, effective)],
            counts={
                "endpoints": len(endpoints),
                "allowed": len(allowed),
                "refused": sum(standing.refused is not None for standing in ranked),
                "probes_usd": fsum(standing.probes_usd for standing in ranked),
            },
            identity=msgspec.json.encode(effective.routing.as_request()).decode(),
        )
        tables = {"who may answer": _standings_table(ranked), "their endpoints": _table(endpoints, allowed)}
        yield from events_of(audit, {**tables, "routing": dg.MetadataValue.path(routing_path(home.root))})


def _probed(project: Project, configuration: Configuration, endpoints: "Sequence[Endpoint]") -> "list[Probed]":
    """What the providers that may answer said to probes; nothing where there is no key to pay with."""
    from eagle_assets.defs.standing import RIVALS
    from eagle_assets.openrouter.endpoints import allowed_endpoints
    from eagle_assets.openrouter.origin import REQUANTISED
    from eagle_assets.openrouter.probing import ask_probes
    from eagle_assets.reconstruction.probing.probes import distinct_requests, probe_requests
    from eagle_assets.targets.kimi import target_named
    from eagle_assets.targets.prompt import prompt_ids

    if project.settings.api_key is None:
        return []
    target = target_named(configuration.target)
    probes = distinct_requests(probe_requests(target, RIVALS, streamed=True), target, streamed=True)
    allowed = allowed_endpoints(endpoints, configuration.routing)
    worth_asking = [endpoint for endpoint in allowed if endpoint.quantization not in REQUANTISED]
    requests = [(body, len(prompt_ids(target, body))) for body in probes]
    return ask_probes(project.home.root, requests, worth_asking, configuration, project.settings)


async def _listed_endpoints(settings: Settings, target: str) -> "tuple[Endpoint, ...]":
    from eagle_assets.openrouter.endpoints import read_endpoints
    from eagle_assets.openrouter.timing import Timing
    from eagle_assets.openrouter.transport import Server

    async with Server(settings.base_url, revealed(settings.api_key), 1, Timing()) as server:
        status, document = await server.get(f"models/{target}/endpoints")
    if status != 200:
        raise dg.Failure(
            f"{settings.base_url} does not list the endpoints of {target} "
            f"({'no answer' if status is None else f'status {status}'}): look at "
            f"{'OPENROUTER_API_KEY' if status in (401, 403) else 'OPENROUTER_BASE_URL'}, at `target` in the datasets "
            "file, and at the network",
            allow_retries=False,
        )
    return read_endpoints(document)


def providers_allowed(
    endpoints: "tuple[Endpoint, ...]", allowed: "tuple[Endpoint, ...]", configuration: Configuration
) -> Check:
    from eagle_assets.openrouter.origin import REQUANTISED

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
            "endpoint": e.tag,
            "weights": e.quantization or "not said",
            "$ a million, prompt and answer": f"{e.price.prompt_per_million:g}, {e.price.completion_per_million:g}",
            "most tokens": e.max_completion_tokens or 0,
            "may answer": "yes" if e in allowed else "no",
            "context": e.context_tokens or 0,
            "gives token bytes": "yes" if "logprobs" in e.supported_parameters else "no",
        }
        for e in endpoints
    ]
    return dg.MetadataValue.table([dg.TableRecord(row) for row in rows]) if rows else dg.MetadataValue.null()


def _standings_table(ranked: "Sequence[Standing]") -> dg.MetadataValue:
    rows: list[dict[str, Any]] = [
        {
            "provider": standing.slug,
            "may answer": f"no: {standing.refused}" if standing.refused else "yes",
            "what probes prove": "; ".join(
                filter(None, (standing.proof, ", ".join(standing.conventions), standing.note))
            ),
            "$ a million": standing.completion_usd_per_million,
        }
        for standing in ranked
    ]
    return dg.MetadataValue.table([dg.TableRecord(row) for row in rows]) if rows else dg.MetadataValue.null()
