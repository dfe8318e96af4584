"""`/review/rows`: rows of training data, one at a time."""

from __future__ import annotations

from typing import Final, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.errors import UsageError
from conch.review import reviewer_named
from conch.views import ReviewCard
from conch_services.dashboard.api.reviews import ReviewedFormat
from conch_services.dashboard.asking import asked
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.pages.cycle import shown
from conch_services.dashboard.row_reviews import card_of, open_pool, queued_row
from conch_services.dashboard.story.verdicts import rows_verdict

FORMATS: Final[tuple[ReviewedFormat, ...]] = get_args(ReviewedFormat)
MOST_SKIPPED: Final = 200
"""Most rows that a page may name as skipped."""


async def review_rows(request: Request) -> Response:
    """The next card of the reviewer that is not among those of `?without=HASH,…`; with `?row=` that one."""
    query = request.query_params
    format = next((one for one in FORMATS if one == query.get("format")), FORMATS[0])
    reviewer = _reviewer(query.get("reviewer"))
    blind = query.get("blind") == "1"
    found = await asked(_next(request, format, reviewer, blind=blind))
    card, left = found.found or (None, 0)
    template = "review_row_card.html" if "hx-request" in request.headers else "review_rows.html"
    told: dict[str, object] = {"card": card, "left": left, "why": found.why, "broken": found.broken, "shown": shown}
    told["verdict_said"] = rows_verdict(left, format, reviewer)
    told |= {"formats": FORMATS, "format": format, "reviewer": reviewer, "blind": blind}
    return await page(request, template, told)


def _reviewer(named: str | None) -> str:
    """The name in the address, else the user's: what is no name is passed over."""
    try:
        return reviewer_named(named or None)
    except UsageError:
        return reviewer_named(None)


async def _next(
    request: Request, format: ReviewedFormat, reviewer: str, *, blind: bool
) -> tuple[ReviewCard | None, int]:
    """(the card, how many rows are left of the pool)."""
    opened = await open_pool(request, await agent_of(request), format, reviewer)
    query = request.query_params
    left = list(opened.pool.queue(opened.decisions, query.get("without", "").split(",")[:MOST_SKIPPED]))
    named = query.get("row")
    one = await queued_row(request, opened.pool, named) if named else left[0] if left else None
    return (None if one is None else await card_of(request, opened, one, blind=blind)), len(left)


ROUTES = [Route("/review/rows", review_rows)]
