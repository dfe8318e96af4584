"""Downloads of cycles: CSV for tables, JSON Lines for programs; read and sent in pages, so of any size."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from conch.experience import CycleFilter, ExperienceReader
from conch.experience.queries import BUILTIN_SCORERS
from conch.text import safe_text
from conch.views import action_words, cycle_row, scored_of, total_ms, urgent_need
from conch_schemas import ExperienceRecorded
from conch_services.dashboard.api.asked import AgentQuery, TheFilters, TheWorld, the_agent
from conch_services.dashboard.api.problems import responses
from conch_services.dashboard.world import DashboardContext

router = APIRouter()

PAGE: Final = 200
"""Cycles read at a time: some tens of milliseconds of a thread that pages need too."""
COLUMNS: Final = (
    *("agent", "cycle", "action_id", "time", "need", "kind", "tool", "skill", "valid", "action", "outcome"),
    *("total", "coverage", "complete", "revision", "scored", "parts", *BUILTIN_SCORERS, "ms", "thought", "raw"),
    "output",
)
_FORMULA: Final = tuple("=+-@\uff1d\uff0b\uff0d\uff20\t\r")
"""First characters of a cell that a spreadsheet takes for a formula; some also take the full-width forms."""

_CSV: Final[Any] = {200: {"description": "A header, then a row for each cycle.", "content": {"text/csv": {}}}}
_LINES: Final[Any] = {
    200: {"description": "A cycle a line, as /cycles has it.", "content": {"application/x-ndjson": {}}}
}


@router.get("/cycles.csv", response_class=Response, responses=responses(404) | _CSV)
async def table(world: TheWorld, filters: TheFilters, agent: AgentQuery = None) -> Response:
    """Every cycle that the filters let through, newest first, as CSV (RFC 4180, UTF-8). A text that a spreadsheet would
    take for a formula begins with an apostrophe."""
    return await _sent(world, await the_agent(world, agent), filters, _as_table, "text/csv", "cycles.csv")


@router.get("/cycles.jsonl", response_class=Response, responses=responses(404) | _LINES)
async def lines(world: TheWorld, filters: TheFilters, agent: AgentQuery = None) -> Response:
    """Every cycle that the filters let through, newest first, a line of JSON each."""
    return await _sent(world, await the_agent(world, agent), filters, _as_lines, "application/x-ndjson", "cycles.jsonl")


async def _sent(
    world: DashboardContext,
    agent: str,
    filters: CycleFilter,
    made: Callable[[Sequence[ExperienceRecorded]], bytes],
    kind: str,
    name: str,
) -> Response:
    """The file, with its first page read before the response starts: a store's error still becomes a status."""
    first = await world.read(partial(_page, agent, filters, None))

    async def pages() -> AsyncIterator[bytes]:
        if made is _as_table:
            yield _line(COLUMNS)
        found = first
        while found:
            yield made(found)
            more = partial(_page, agent, filters, found[-1].cycle)
            found = await world.read(more) if len(found) == PAGE else []

    headers = {"Content-Disposition": f'attachment; filename="{agent}-{name}"'}
    return StreamingResponse(pages(), media_type=kind, headers=headers)


def _page(agent: str, filters: CycleFilter, before: int | None, reader: ExperienceReader) -> list[ExperienceRecorded]:
    return reader.cycles.find(agent, filters, PAGE, before)


def _as_lines(found: Sequence[ExperienceRecorded]) -> bytes:
    return b"".join(msgspec.json.encode(cycle_row(one).document()) + b"\n" for one in found)


def _as_table(found: Sequence[ExperienceRecorded]) -> bytes:
    return b"".join(_line(list(_cells(one))) for one in found)


def _cells(one: ExperienceRecorded) -> Iterator[object]:
    """In the order of COLUMNS; of a component that was not scored an empty cell."""
    action, (scored, parts) = one.action, scored_of(one)
    yield from (one.agent, one.cycle, one.action_id, one.acted_at.isoformat(), urgent_need(one))
    yield from (action.kind, action.tool, action.skill, action.valid, action_words(action, 200), one.outcome.status)
    yield from (one.total, one.coverage, one.complete, one.revision, scored, parts)
    values = {(score.component, score.scorer): score.value for score in one.scores}
    yield from (values.get(part) for part in BUILTIN_SCORERS.items())
    yield from (round(total_ms(one), 3), one.thought, one.raw, one.outcome.output.text)


def _line(cells: Sequence[object]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerow([cell(value) for value in cells])
    return out.getvalue().encode()


def cell(value: object) -> object:
    """The content of a cell: numbers as they are, texts made safe for terminals and spreadsheets."""
    if not isinstance(value, str):
        return value
    text = safe_text(value)
    starts = (value, text, text.lstrip())
    return f"'{text}" if any(start.startswith(_FORMULA) for start in starts) else text
