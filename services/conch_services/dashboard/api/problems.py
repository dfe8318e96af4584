"""Error answers of the API (RFC 9457): a status and a sentence, and their part of the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import Response

from conch.errors import BusError, CheckError, ConchError, FencedError, StoreError
from conch.text import safe_text
from conch_schemas import JsonObject
from conch_services.dashboard.errors import HANDLERS
from conch_services.dashboard.security.refusals import problem

AGAIN_SECONDS: Final = "2"
"""Retry-After where the bus is away or the store is locked, in seconds."""

_DESCRIPTIONS: Final = {
    400: "It could not be understood.",
    401: "No session and no token.",
    403: "It came from another page.",
    404: "There is no such thing.",
    409: "It cannot be done as things are.",
    413: "The request is too large.",
    422: "What is asked cannot be; nothing was done.",
    429: "Too many wrong tokens.",
    503: "The bus or the store cannot be reached now: ask again after Retry-After seconds.",
}


def responses(*more: int) -> dict[int | str, JsonObject]:
    """For the document: the problems that any request may meet, and these."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    return {
        status: {"description": _DESCRIPTIONS[status], "content": content}
        for status in sorted({400, 401, 403, 413, 422, 429, 503, *more})
    }


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("query", "path", "body"))
    where = f"{place}: " if place else ""
    return problem(422, safe_text(f"{where}{first['msg']}.", one_line=True)[:500])


async def _refused(_: Request, error: Exception) -> Response:
    """The response to a refusal by the agent, a consumer or a rule of ours; or to a request that is impossible now."""
    assert isinstance(error, ConchError)
    detail = safe_text(str(error), one_line=True)
    if isinstance(error, BusError | StoreError) and not isinstance(error, FencedError):
        return problem(503, detail, {"Retry-After": AGAIN_SECONDS})
    return problem(409, detail)


API_HANDLERS: Final[Any] = {**HANDLERS, RequestValidationError: _invalid, ConchError: _refused, CheckError: _refused}
