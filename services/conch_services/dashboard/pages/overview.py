"""`/`: how it goes, at a glance."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch_services.dashboard.page import page


async def overview(request: Request) -> Response:
    """The figures of the last cycles, then live."""
    return await page(request, "overview.html", {})


ROUTES = [Route("/", overview)]
