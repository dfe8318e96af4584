"""The views of consumers: positions and lags, for `conch consumer … --json` and the pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from conch.bus import Bus
from conch.consumer.group import lag as reader_lag
from conch.consumer.runtime import open_dead_letters
from conch.views.base import View


class ConsumerRow(View):
    """The position of a consumer, and its open dead letters."""

    name: str
    acknowledged: int
    """Every event up to this stream sequence is handled; written once a second, with many agents more seldom."""
    lag: int
    """Events that concern it behind that, counted by the server."""
    letters: int
    """Number of its open dead letters."""


class Consumers(View):
    """All consumers, as `conch consumer list --json` prints them."""

    schema_: Literal["conch.v1.consumers"] = Field(default="conch.v1.consumers", alias="schema")
    last: int
    """The stream's last sequence."""
    consumers: tuple[ConsumerRow, ...]


class Lag(View):
    """The number of events that wait for a consumer."""

    name: str
    lag: int


class Lags(View):
    """The lags of all consumers, as `conch consumer lag --json` prints them."""

    schema_: Literal["conch.v1.lag"] = Field(default="conch.v1.lag", alias="schema")
    last: int
    """The stream's last sequence."""
    consumers: tuple[Lag, ...]
    """The largest lag first."""


class ConsumerReset(View):
    """The result of `conch consumer reset --json`."""

    schema_: Literal["conch.v1.reset"] = Field(default="conch.v1.reset", alias="schema")
    consumer: str


class ConsumerForgotten(View):
    """The result of `conch consumer forget --json`."""

    schema_: Literal["conch.v1.forgotten"] = Field(default="conch.v1.forgotten", alias="schema")
    consumer: str


async def standings(bus: Bus) -> tuple[int, list[ConsumerRow]]:
    """(the stream's last sequence, every consumer with a stored position on this bus, running or not)."""
    found, last = await reader_lag.standings(bus), (await bus.state()).last
    letters = Counter([letter.consumer async for letter in open_dead_letters(bus)])
    rows = [ConsumerRow(name=one.name, acknowledged=one.seq, lag=one.lag, letters=letters[one.name]) for one in found]
    return last, rows


def consumers_shown(last: int, found: Sequence[ConsumerRow]) -> Consumers:
    """A row for each consumer; `last` is the stream's last sequence."""
    return Consumers(last=last, consumers=tuple(found))


def lag_shown(last: int, found: Sequence[ConsumerRow]) -> Lags:
    """How many events wait for each, the most first."""
    return Lags(last=last, consumers=tuple(Lag(name=one.name, lag=one.lag) for one in most_behind(found)))


def most_behind(found: Sequence[ConsumerRow]) -> list[ConsumerRow]:
    """The largest lag first."""
    return sorted(found, key=lambda one: -one.lag)
