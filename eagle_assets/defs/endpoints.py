"""The endpoints that `provider_calibration` published, and the price that they lead to."""

from typing import TYPE_CHECKING

import msgspec

from eagle_assets.configuration import Routing
from eagle_assets.lake.audit import Published

if TYPE_CHECKING:
    from eagle_assets.openrouter.endpoints import Endpoint, Price


def published_endpoints(calibration: Published) -> "tuple[Endpoint, ...]":
    from eagle_assets.openrouter.endpoints import Endpoint

    return msgspec.json.decode(calibration.path("endpoints.json").read_bytes(), type=tuple[Endpoint, ...])


def price_to_reckon_with(calibration: Published | None, routing: Routing) -> "Price":
    """The dearest price that routing allows; a default one where no endpoint is known."""
    from eagle_assets.openrouter.endpoints import allowed_endpoints, dearest_price, default_price

    endpoints = published_endpoints(calibration) if calibration is not None else ()
    return dearest_price(allowed_endpoints(endpoints, routing)) or default_price(routing)
