"""What an address says of cycles: filters, times, a range and an order; what cannot be is said in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, get_args

from conch.experience import CycleFilter, CycleOrder, ExperienceReader
from conch_schemas.action import ActionKind, OutcomeStatus
from conch_services.dashboard.ranges.wanted import USUAL, WantedRange, wanted_range
from conch_services.dashboard.ranges.window import cycle_since, window_of

OUTCOMES: Final[tuple[str, ...]] = get_args(OutcomeStatus)
KINDS: Final[tuple[str, ...]] = get_args(ActionKind)
ORDERS: Final = ("cycle", "need", "skill", "outcome", "ms", "total")
"""Keys of `?sort=`; with a minus before it the greatest is first."""
NEWEST: Final = CycleOrder()
TIMES: Final = {"from": "the first time", "until": "the last time"}
_WORDS: Final = {
    "least": "the least total",
    "most": "the greatest total",
    "first": "the first cycle",
    "last": "the last cycle",
    **TIMES,
}


@dataclass(frozen=True)
class WantedCycles:
    """The cycles that an address means."""

    filters: CycleFilter
    begin: datetime | None = None
    """Acts at this time or later, UTC."""
    end: datetime | None = None
    """Acts before this time."""
    range: WantedRange = USUAL
    order: CycleOrder = NEWEST
    given: Mapping[str, str] = field(default_factory=dict)
    """The parts of the query that are filters or times, as they stand in links."""
    wrong: tuple[str, ...] = ()
    """Sentences on what in the query cannot be; that is left out."""

    @property
    def query(self) -> dict[str, str]:
        """All of it but the agent, for links."""
        sort = {} if self.order == NEWEST else {"sort": f"{'-' if self.order.falling else ''}{self.order.by}"}
        return {**self.given, **({"range": self.range.text} if self.range.text else {}), **sort}

    def within(self, reader: ExperienceReader, agent: str) -> CycleFilter:
        """The filters, with times and range as the cycles that these have in the store: 60 short queries at most."""
        found = self.filters
        if self.range.kind not in ("usual", "life"):
            window = window_of(reader, agent, self.range)
            found = _between(found, window.first, window.last)
        if self.begin is not None or self.end is not None:
            last = window_of(reader, agent, USUAL).last
            first = 0 if self.begin is None else cycle_since(reader, agent, self.begin, last)
            found = _between(found, first, last if self.end is None else cycle_since(reader, agent, self.end, last) - 1)
        return found


def _between(filters: CycleFilter, first: int, last: int) -> CycleFilter:
    return replace(
        filters,
        first=first if filters.first is None else max(first, filters.first),
        last=last if filters.last is None else min(last, filters.last),
    )


def wanted_cycles(query: Mapping[str, str]) -> WantedCycles:
    """What a query means."""
    filters, given, wrong = filters_of(query)
    times: dict[str, datetime] = {}
    for name in TIMES:
        text = query.get(name, "").strip()
        if not text:
            continue
        try:
            told = datetime.fromisoformat(text)
            times[name] = told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
            given[name] = text
        except (ValueError, OverflowError):
            wrong.append(_cannot(name, text))
    return WantedCycles(
        filters, times.get("from"), times.get("until"), wanted_range(query)[0], order_of(query), given, tuple(wrong)
    )


def order_of(query: Mapping[str, str]) -> CycleOrder:
    """The order of `?sort=`; the newest first where it names none."""
    text = query.get("sort", "")
    name = text.removeprefix("-")
    return CycleOrder(name, text.startswith("-")) if name in ORDERS else NEWEST  # type: ignore[arg-type]  # is in it


def filters_of(query: Mapping[str, str]) -> tuple[CycleFilter, dict[str, str], list[str]]:
    """(the filters of a query, what of it they were made from, sentences on what in it cannot be)."""
    given: dict[str, str] = {}
    filters = CycleFilter()
    wrong: list[str] = []
    for name in CycleFilter.__dataclass_fields__:
        text = query.get(name, "").strip()
        if not text:
            continue
        try:
            filters = replace(filters, **{name: _value(name, text)})
            given[name] = text
        except ValueError:
            wrong.append(_cannot(name, text))
    return filters, given, wrong


def _cannot(name: str, text: str) -> str:
    return f"{_WORDS.get(name, name).capitalize()} cannot be “{text[:40]}”: {_wanted(name)}."


def _value(name: str, text: str) -> Any:
    if name in ("least", "most"):
        value = float(text)
        if not math.isfinite(value):
            raise ValueError
        return value
    if name in ("first", "last"):
        if not (text.isascii() and text.isdecimal()) or len(text) > 19:
            raise ValueError
        return int(text)
    if name == "complete":
        return {"true": True, "false": False}.get(text) if text in ("true", "false") else _refused()
    if (name == "outcome" and text not in OUTCOMES) or (name == "kind" and text not in KINDS):
        raise ValueError
    return text


def _refused() -> None:
    raise ValueError


def _wanted(name: str) -> str:
    if name in ("least", "most"):
        return "it is a number, such as 0.3"
    if name in ("first", "last"):
        return "it is a whole number from 0"
    if name in TIMES:
        return "it is a time of UTC, such as 2026-01-31T15:30"
    return f"it is one of {', '.join({'outcome': OUTCOMES, 'kind': KINDS}.get(name, ('true', 'false')))}"
