"""The API's requests about rows of training data that people review."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, StringConstraints
from starlette.responses import Response

from conch.experience import ExperienceReader
from conch.review import ReviewDecisions, ReviewVerdict, preference, reviewer_named, rule_agreement, scores_beside
from conch.text import well_formed
from conch.views import ReviewDone, ReviewNext, ReviewQueue, ReviewStats, review_done, review_queue, review_stats
from conch_schemas import REVIEWER_PATTERN, ROW_PATTERN
from conch_services.dashboard.api.asked import AgentQuery, TheWorld, document, the_agent
from conch_services.dashboard.api.problems import responses
from conch_services.dashboard.row_reviews import card_of, decided, open_pool, queued_row

router = APIRouter()

MOST = 100
"""Most rows of a list."""
MOST_SKIPPED = 200
"""Most rows that a request may name as skipped."""
ReviewedFormat = Literal["sft", "dpo", "kto", "grpo", "reward"]
RowPath = Annotated[str, Path(pattern=ROW_PATTERN, description="The row's hash.")]
RowQuery = Annotated[str | None, Query(pattern=ROW_PATTERN, description="This row's card, decided on or not.")]
ReviewerQuery = Annotated[str | None, Query(pattern=REVIEWER_PATTERN, description="Default: the user who runs it.")]
Skipped = Annotated[
    str, Query(max_length=65 * MOST_SKIPPED, pattern=r"^([0-9a-f]{64}(,|$))*$", description="Hashes, by commas.")
]


class ReviewRequest(BaseModel):
    """What every decision names beside the row."""

    model_config = ConfigDict(extra="forbid")

    format: ReviewedFormat = "sft"
    reviewer: Annotated[str, StringConstraints(pattern=REVIEWER_PATTERN)] | None = None
    """Default: the user who runs the dashboard."""
    reason: Annotated[str, StringConstraints(max_length=1000)] = ""


class EditRequest(ReviewRequest):
    """A correction of the row's reply."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=32_000, pattern=r"\S")]


class PreferRequest(ReviewRequest):
    """Which reply of a pair is better, as they stand on the card that does not say which was chosen."""

    better: Literal["first", "second"]


@router.get("/reviews", response_model=ReviewQueue, responses=responses(404, 409))
async def reviews(
    request: Request,
    world: TheWorld,
    agent: AgentQuery = None,
    format: ReviewedFormat = "sft",
    reviewer: ReviewerQuery = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 20,
) -> Response:
    """The rows that wait for a reviewer, in the order in which they are shown."""
    opened = await open_pool(request, await the_agent(world, agent), format, reviewer_named(reviewer))
    rows = list(opened.pool.queue(opened.decisions))[:limit]
    return document(review_queue(opened.pool, rows, world.settings.training.review))


@router.get("/reviews/next", response_model=ReviewNext, responses=responses(404, 409))
async def next_review(
    request: Request,
    world: TheWorld,
    agent: AgentQuery = None,
    format: ReviewedFormat = "sft",
    reviewer: ReviewerQuery = None,
    row: RowQuery = None,
    without: Skipped = "",
    blind: bool = False,
) -> Response:
    """The next row of a reviewer with all that is known of it."""
    opened = await open_pool(request, await the_agent(world, agent), format, reviewer_named(reviewer))
    left = list(opened.pool.queue(opened.decisions, without.split(",")))
    one = (left[0] if left else None) if row is None else await queued_row(request, opened.pool, row)
    card = None if one is None else await card_of(request, opened, one, blind=blind)
    return document(ReviewNext(card=card, left=len(left)))


@router.get("/reviews/stats", response_model=ReviewStats, responses=responses())
async def stats(world: TheWorld) -> Response:
    """How often reviewers decided how, and how far each rule agrees with each of them."""

    def counted(reader: ExperienceReader) -> ReviewStats:
        decisions = ReviewDecisions(reader.reviews.walk())
        return review_stats(decisions, rule_agreement(decisions, scores_beside(reader, decisions)))

    return document(await world.read(counted))


@router.post("/reviews/{row}/approve", response_model=ReviewDone, responses=responses(404, 409))
async def approve_row(
    request: Request, world: TheWorld, row: RowPath, said: ReviewRequest, agent: AgentQuery = None
) -> Response:
    """Approve a row: it may be trained on. The same decision again is once, another one replaces it."""
    return await _decided(request, await the_agent(world, agent), row, said, ReviewVerdict("approved", said.reason))


@router.post("/reviews/{row}/reject", response_model=ReviewDone, responses=responses(404, 409))
async def reject_row(
    request: Request, world: TheWorld, row: RowPath, said: ReviewRequest, agent: AgentQuery = None
) -> Response:
    """Reject a row, with a reason: it is never trained on."""
    return await _decided(request, await the_agent(world, agent), row, said, ReviewVerdict("rejected", said.reason))


@router.post("/reviews/{row}/edit", response_model=ReviewDone, responses=responses(404, 409))
async def edit_row(
    request: Request, world: TheWorld, row: RowPath, said: EditRequest, agent: AgentQuery = None
) -> Response:
    """Correct the reply of a row: the corrected row is trained on in its place, and as a pair with the original."""
    verdict = ReviewVerdict("edited", said.reason, well_formed(said.text))
    return await _decided(request, await the_agent(world, agent), row, said, verdict)


@router.post("/reviews/{row}/prefer", response_model=ReviewDone, responses=responses(404, 409))
async def prefer_reply(
    request: Request, world: TheWorld, row: RowPath, said: PreferRequest, agent: AgentQuery = None
) -> Response:
    """Say which reply of a pair is better without knowing which was chosen."""
    reviewer = reviewer_named(said.reviewer)
    opened = await open_pool(request, await the_agent(world, agent), said.format, reviewer)
    one = await queued_row(request, opened.pool, row)
    verdict = preference(one.row, reviewer, said.better)
    return document(review_done(await decided(request, one.row, reviewer, verdict)))


async def _decided(request: Request, agent: str, row: str, said: ReviewRequest, verdict: ReviewVerdict) -> Response:
    reviewer = reviewer_named(said.reviewer)
    opened = await open_pool(request, agent, said.format, reviewer)
    one = await queued_row(request, opened.pool, row)
    return document(review_done(await decided(request, one.row, reviewer, verdict)))
