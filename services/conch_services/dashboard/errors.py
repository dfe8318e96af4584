"""Error responses of the dashboard: an HTML page, or a problem in JSON for the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from conch.errors import ConchError, UsageError
from conch.text import safe_text
from conch_services.dashboard.page import page
from conch_services.dashboard.security.refusals import BROKEN, TITLES, is_for_programs, problem, refusal
from conch_services.dashboard.security.sessions import is_let_in

NOTHING_HERE = "There is nothing at this address. The menu leads to every page that there is."
NO_API_HERE = "There is nothing at this address: /api/v1/openapi.json names all that there is."


async def answered(request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer with this status, and in a sentence or two why."""
    if is_for_programs(request.url.path):
        return problem(status, detail, dict(headers or {}))
    if not is_let_in(request.scope):
        return refusal(request.url.path, status, detail, headers=dict(headers or {}))
    title = TITLES.get(status, HTTPStatus(status).phrase)
    drawn = await page(request, "error.html", {"title": title, "detail": detail, "broken": status == 503}, status)
    drawn.headers.update(headers or {})
    return drawn


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = safe_text(str(error.detail), one_line=True)
    if error.status_code == 404 and detail == HTTPStatus(404).phrase:
        detail = NO_API_HERE if is_for_programs(request.url.path) else NOTHING_HERE
    elif error.status_code == 405:
        detail = (
            f"What is at this address takes {(error.headers or {}).get('Allow', 'another method')}, not this method."
        )
    return await answered(request, error.status_code, detail, error.headers)


async def _ours(request: Request, error: Exception) -> Response:
    status = 400 if isinstance(error, UsageError) else 503
    return await answered(request, status, safe_text(str(error), one_line=True))


async def _broken(request: Request, _: Exception) -> Response:
    return refusal(request.url.path, 500, BROKEN)


HANDLERS: Mapping[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: _http,
    ConchError: _ours,
    Exception: _broken,
}
"""For every application of the dashboard."""
