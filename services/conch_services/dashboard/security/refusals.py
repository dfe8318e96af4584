"""Refusals of the guard: a page, or for the API and the live stream a problem in JSON. They contain no data, no names
of this home, and nothing of the request."""

from __future__ import annotations

from http import HTTPStatus
from typing import Literal

import msgspec
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from conch.views import View
from conch_services.dashboard.page import TEMPLATES

LOG_IN = "Open the link that conch run or conch ui has printed. It lets in once; conch ui --link prints another one."
SPENT = (
    "This link was used already, or is older than a day. A link lets in once: conch ui --link prints another one, and "
    "so does the next conch run."
)
WRONG = "That is not the token. It stands in the file ui/token of the home directory, or is the one set as ui.token."
LOGGED_OUT = (
    "This browser has no session any more, in any of its windows; the run, and sessions of other browsers, go on. "
    "conch ui --link prints a link that lets in again."
)
FOREIGN_HOST = (
    "This address is not known as the dashboard's. Open it by the address that conch run has printed, or name this one "
    "in ui.origins."
)
NO_HOST = "The request does not say which host it is meant for: it needs the header Host."
TWICE = (
    "A header that decides who is let in stands there twice: Host, Origin, Authorization, Sec-Fetch-Site and the like "
    "are sent once."
)
TWO_LENGTHS = (
    "The request says in two ways how long it is: it has a Content-Length or a Transfer-Encoding, and not both."
)
NO_REQUEST = "This is no request of HTTP/1.1, or its headers are longer than 16 KiB."
CROSS_SITE = (
    "Another page has sent this, so nothing was done. Do it on the dashboard's own page; a program shows the token, as "
    "Authorization: Bearer, and neither Origin nor Sec-Fetch-Site."
)
TOO_LARGE = "The request is larger than 64 KiB: send less at once."
LONG_HEAD = (
    "The request's address or headers are longer than 16 KiB: leave some out; remove old cookies of this machine."
)
TOO_SLOW = "The rest of the request did not come in its time: send it again."
TOO_OFTEN = (
    "Too many wrong tokens have come from here: wait a minute before another one. The right token, and a link that was "
    "not used yet (conch ui --link prints one), let in at once."
)
TOO_MANY_PAGES = "As many pages are open as can be shown live at once: close some, or ask again in a few seconds."
NOT_NOW = "Nobody can be let in just now: the log of the dashboard says why, and conch doctor looks at the home."
NOT_AHEAD = "A link that lets in once is not opened ahead of its time."
BROKEN = "The dashboard has met an error of its own. The log has it; nothing of the agent is harmed. Try again."

Way = Literal["resume", "again", "forget"]
"""The action of a refusal page's script: go on with the browser's session, load the page once more, or forget the
session that was ended."""

TITLES = {
    200: "Logged out",
    400: "Not understood",
    401: "Log in first",
    403: "Nothing was done",
    404: "Not found",
    405: "Not in this way",
    408: "Too slow",
    413: "Too large",
    421: "Unknown address",
    429: "Wait a minute",
    431: "Too large",
    500: "Something broke",
    503: "Not now",
}


class Refusal(View):
    """The reason of a refusal, as a problem document (RFC 9457)."""

    schema_: Literal["conch.v1.problem"] = Field(default="conch.v1.problem", alias="schema")
    status: int
    """The HTTP status."""
    title: str
    detail: str
    """One sentence or two: what is wrong, and what to do."""


def is_for_programs(path: str) -> bool:
    """Whether the answer at this path is read by a program rather than by a person."""
    return path.startswith("/api/") or path in ("/api", "/live")


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """The answer of the API to what cannot be: a problem of RFC 9457, `detail` one sentence or two."""
    said = Refusal(status=status, title=HTTPStatus(status).phrase, detail=detail)
    return Response(msgspec.json.encode(said.document()), status, headers, "application/problem+json")


def refusal(
    path: str,
    status: int,
    detail: str,
    *,
    headers: dict[str, str] | None = None,
    form: str | None = None,
    way: Way | None = None,
) -> Response:
    """The response that refuses a request for `path`, or that confirms a logout, which is no refusal (200).

    `form`: the page has a form for the token, which then leads to this path. `way`: what its script does there.
    """
    if is_for_programs(path):
        return problem(status, detail, headers)
    template = TEMPLATES.get_template("closed.html")
    title = TITLES.get(status, HTTPStatus(status).phrase)
    return HTMLResponse(template.render(title=title, detail=detail, form=form, way=way), status, headers)
