"""`/data`: the data sets of the home: what their rows are like, what was left out and why, and each row's acts."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.data import Manifest, Row, rows_between
from conch.experience import ExperienceReader
from conch.home import DEFAULT_HOME, Home
from conch_services.dashboard.asking import asked, number_of
from conch_services.dashboard.drawings.numerals import MINUS
from conch_services.dashboard.lineages import DataSets, data_sets
from conch_services.dashboard.page import page
from conch_services.dashboard.story.verdicts import data_verdict
from conch_services.dashboard.world import DashboardContext

MOST_SETS: Final = 100
"""Snapshots that are listed, the newest."""
ROWS: Final = 25
"""Rows of a page."""
MOST_BARS: Final = 12
"""Bars of a figure, those with the most rows."""


class Bar(NamedTuple):
    """Rows that are alike in one thing."""

    label: str
    rows: int
    share: float
    """Of the longest bar of the figure, 0 to 1."""


class BarFigure(NamedTuple):
    """Rows of a snapshot by one thing."""

    title: str
    bars: Sequence[Bar]


class ShownRow(NamedTuple):
    """A row, and the cycles of its acts; None for one that the store does not have."""

    row: Row
    cycles: Sequence[int | None]


async def data(request: Request) -> Response:
    """The snapshots, and the one of `?set=`, else the newest, with ROWS of its rows from `?skip=` on."""
    world: DashboardContext = request.app.state.world
    sets: DataSets = await data_sets(world, MOST_SETS)
    named = request.query_params.get("set", "")
    there = dict(sets)
    name = named if named in there else next((name for name, about in sets if about is not None), "")
    about = there.get(name)
    skip = number_of(request, "skip")
    rows = await asked(_rows(world, name, about, skip)) if about is not None else None
    found = {
        "sets": sets,
        "named": named if named and named not in there else "",
        "name": name,
        "manifest": about,
        "figures": [] if about is None else figures(about),
        "left_out": [] if about is None else bars(about.left_out),
        "filters": {} if about is None else {key: value for key, value in about.filters.items() if value is not None},
        "verdict_said": None if about is None else data_verdict(about),
        "rows": () if rows is None else rows.found or (),
        "rows_why": "" if rows is None else rows.why,
        "skip": skip,
        "most": ROWS,
        "command": export_command(world.home),
        "after": world.hub.last,
    }
    return await page(request, "data.html", found)


async def _rows(world: DashboardContext, name: str, about: Manifest, skip: int) -> list[ShownRow]:
    folder = world.home.path / "data" / name
    rows = await asyncio.to_thread(rows_between, folder, about, skip, ROWS)

    def read(reader: ExperienceReader) -> list[list[int | None]]:
        return [[reader.cycles.cycle_of(action) for action in row.action_ids] for row in rows]

    cycles = (await asked(world.read(read))).found or [[None] * len(row.action_ids) for row in rows]
    return [ShownRow(row, some) for row, some in zip(rows, cycles, strict=True)]


def figures(about: Manifest) -> list[BarFigure]:
    """What the rows of a snapshot are like; figures without a bar are left out."""
    said = about.figures
    found = (
        BarFigure("Tool", bars(said.by_skill)),
        BarFigure("Outcome", bars(said.by_status)),
        BarFigure("Reward", _spans(said.by_reward)),
        BarFigure("Length", steps(said.by_length, "{1:,.0f} to {0:,.0f} characters", 0.5)),
        BarFigure("Pairs by margin", _spans(said.pairs_by_margin)),
        BarFigure("Pairs by tier", bars(said.pairs_by_tier)),
        BarFigure("Origin", bars(said.by_origin)),
    )
    return [one for one in found if one.bars]


def _spans(counts: Mapping[str, int]) -> list[Bar]:
    return [one._replace(label=one.label.replace("-", MINUS)) for one in steps(counts, "{:+.2f} to {:+.2f}")]


def bars(counts: Mapping[str, int]) -> list[Bar]:
    """The most rows first, MOST_BARS at most."""
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:MOST_BARS]
    return [Bar(label, rows, rows / ranked[0][1]) for label, rows in ranked]


def steps(counts: Mapping[str, int], words: str, times: float = 0.0) -> list[Bar]:
    """Rows by a number, the least first. `words` are told the number of a step and its other end: 0.25 above, or where
    it is named `times` of it."""
    most = max(counts.values(), default=1)
    numbers = sorted((float(key), rows) for key, rows in counts.items())
    return [Bar(words.format(at, times * at if times else at + 0.25), rows, rows / most) for at, rows in numbers]


def export_command(home: Home) -> str:
    """The command that makes a first snapshot of this home, as a shell takes it."""
    usual = Path(DEFAULT_HOME).expanduser()
    more = "" if home.path == usual else f" --home {shlex.quote(str(home.path))}"
    return f"conch data export --format sft{more}"


ROUTES = [Route("/data", data)]
