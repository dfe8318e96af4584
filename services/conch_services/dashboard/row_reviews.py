"""Rows of training data for a reviewer at the page or by the API: the next card, and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request

from conch.config import Masker
from conch.data import Format, Row
from conch.errors import BusUnreachableError
from conch.experience import ExperienceReader
from conch.review import (
    QueuedRow,
    ReviewDecisions,
    ReviewPolicy,
    ReviewPool,
    ReviewVerdict,
    RowSignals,
    decisions_now,
    export_redact,
    history_of,
    publish_review,
    review_pool,
    row_of,
)
from conch.views import ReviewCard, review_card
from conch_schemas import ReviewDecided
from conch_services.dashboard.asking import kept
from conch_services.dashboard.world import DashboardContext

POOL_SECONDS = 30.0
"""Seconds for which the rows of a pool are kept: to find them takes a walk over the whole store. Decisions made since
count at once, new rows and new hashes after this time."""


class PoolAnswer(NamedTuple):
    """A pool, and the decisions as of when it was made."""

    pool: ReviewPool
    decided: Sequence[ReviewDecided]
    position: int
    epoch: str | None


class OpenPool(NamedTuple):
    """A pool, and the decisions as of now."""

    pool: ReviewPool
    decisions: ReviewDecisions


async def open_pool(request: Request, agent: str, format: Format, reviewer: str) -> OpenPool:
    """The rows of an agent that wait for this reviewer. Raises StoreError, BusError, and UsageError where the extra
    `data` is not installed."""
    world: DashboardContext = request.app.state.world
    policy = ReviewPolicy.of(world.settings.training.review)
    redact = export_redact(Masker.of(world.settings))

    def look(reader: ExperienceReader) -> PoolAnswer:
        position, epoch, decided = reader.position(), reader.epoch(), tuple(reader.reviews.walk())
        decisions = ReviewDecisions(decided)
        pool = review_pool(reader, format, reviewer, decisions, policy, agent=agent, redact=redact)
        return PoolAnswer(pool, decided, position, epoch)

    found: PoolAnswer = await kept(request, "reviews", POOL_SECONDS).get(
        (agent, format, reviewer), lambda: world.read(look)
    )
    try:
        decisions = await decisions_now(world.bus, found.decided, found.position, found.epoch)
    except BusUnreachableError:
        decisions = ReviewDecisions(found.decided)  # the rows are shown without a bus, too
    return OpenPool(found.pool, decisions)


async def queued_row(request: Request, pool: ReviewPool, named: str) -> QueuedRow:
    """The row of this hash: of the pool, else of the store. Raises UsageError where there is none; StoreError."""
    if named in pool.rows:
        return pool.rows[named]
    world: DashboardContext = request.app.state.world
    redact = export_redact(Masker.of(world.settings))
    row: Row = await world.read(lambda reader: row_of(reader, named, format=pool.format, redact=redact))
    return QueuedRow(row, RowSignals(0.0, 0.0, 0.0), needed=False)


async def card_of(request: Request, opened: OpenPool, one: QueuedRow, *, blind: bool) -> ReviewCard:
    """The card of a row. Raises StoreError."""
    world: DashboardContext = request.app.state.world
    return await world.read(
        lambda reader: review_card(reader.cycles, one, opened.pool.reviewer, opened.decisions, blind=blind)
    )


async def decided(request: Request, row: Row, reviewer: str, verdict: ReviewVerdict) -> ReviewDecided:
    """The decision, published as the export redacts. Raises UsageError, StoreError, BusError."""
    world: DashboardContext = request.app.state.world
    history = await world.read(lambda reader: history_of(reader, row))
    redact = export_redact(Masker.of(world.settings))
    return await publish_review(world.bus, world.home, history, reviewer, verdict, redact=redact)
