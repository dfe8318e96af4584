"""Recorded history for the commands that score the past: reading it, and joining late scores to it."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from conch.cli.common import CommonOptions, open_bus, open_store, warn
from conch.errors import UsageError
from conch.experience import ExperienceReader, ScoredSince
from conch.tasks import background, ungrouped

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.config import Settings
    from conch.consumer import HostedConsumer
    from conch.home import Home

TAKERS = ("store", "witness")
"""The consumers that take scores in without a run: for the experiences and for their marks."""
POLL_SECONDS = 0.05
BREAKS = 3
"""Restarts of a consumer before the command gives up."""
PATIENCE = 30.0
"""Seconds without progress of a run's store after which it is not waited for any longer."""

_DURATION = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

When = Annotated[
    str | None,
    Parameter(name="--since", help="From here on: a cycle's number, a time back (90m, 12h, 7d, 2w), or an ISO time."),
]


def since(when: str | None) -> ScoredSince:
    """The value of --since; a time without a zone is UTC, as Conch shows times. Raises UsageError."""
    if when is None:
        return ScoredSince()
    text = when.strip()
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return ScoredSince(cycle=int(text))
    if (found := _DURATION.fullmatch(text)) is not None:
        try:
            return ScoredSince(time=datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])}))
        except OverflowError:
            return ScoredSince()  # before there were any
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--since {when}: neither a cycle's number, nor a time back (12h, 7d), nor an ISO time (2026-11-21T09:30)"
        ) from None
    return ScoredSince(time=time if time.tzinfo else time.replace(tzinfo=UTC))


@dataclass
class RecordedHistory:
    """The bus of a home, and the consumers that join scores to acts."""

    home: Home
    settings: Settings
    bus: Bus
    reader: ExperienceReader
    alone: bool
    """No run is in progress, and the stream is this home's: only this process takes in what is published."""

    async def take_in(self, upto: int, told: Callable[[float], None] = lambda _: None) -> bool:
        """Return when the facts up to this stream sequence are joined; False where the consumers that join them do not
        run, or make no progress. `told`: called with the share that is done, 0..1.

        Raises StoreError, BusError. Cancelled, it ends the consumers in order.
        """
        if not self.alone:
            return await self._watch(upto, told)
        async with background(self._watch(upto, told), name="conch.history"):
            return await self._host()

    async def _watch(self, upto: int, told: Callable[[float], None]) -> bool:
        epoch, loop = (await self.bus.state()).epoch, asyncio.get_running_loop()
        begin, seen, since = min(self._position(epoch), upto), -1, loop.time()
        while (now := self._position(epoch)) < upto:
            if now > seen:
                seen, since = now, loop.time()
            elif loop.time() - since > PATIENCE or not self._is_joined():
                return False
            told((now - begin) / (upto - begin))
            await asyncio.sleep(POLL_SECONDS)
        return True

    def _position(self, epoch: str) -> int:
        """How much of this stream the store has joined."""
        return self.reader.position() if self.reader.epoch() == epoch else 0

    def _is_joined(self) -> bool:
        """Whether published scores are joined: by a run with this store, or by this process."""
        running = self.home.running()
        return self.alone or (running is not None and "store" in running.consumers)

    async def _host(self) -> bool:
        """Run the consumers that take scores in until they have all that there is; False where one of them cannot."""
        from conch.bus import shared_subscription
        from conch.consumer import ServiceContext, builtin, host
        from conch.consumer.group import joined
        from conch.processes import messages

        stop, broke = asyncio.Event(), Counter[str]()

        def report(report: messages.ConsumerReport) -> None:
            if isinstance(report, messages.ConsumerBroke | messages.ConsumerDown):
                broke[report.consumer] += 1
                warn(f"{report.consumer} broke: {report.why}")

        def cannot(one: HostedConsumer) -> bool:
            return bool(one.down) or broke[one.name] >= BREAKS

        context = ServiceContext(self.settings, self.home.path, report)
        async with shared_subscription(self.bus) as shared_events, joined(self.bus, TAKERS, "history") as members:
            running = builtin(context, TAKERS, members)
            with ungrouped():
                async with asyncio.TaskGroup() as group:
                    group.create_task(host(shared_events, running, stop, report), name="conch.history.host")
                    await _level(self.bus, running, cannot)
                    stop.set()
        return not any(cannot(one) for one in running)


async def _level(bus: Bus, running: Sequence[HostedConsumer], cannot: Callable[[HostedConsumer], bool]) -> None:
    """Return when all consumers that can have handled everything, including what they publish themselves."""
    last = -1
    while last != (last := (await bus.state()).last):
        while not all(cannot(one) or _has_handled(one, last) for one in running):  # noqa: ASYNC110 - there is no notification
            await asyncio.sleep(POLL_SECONDS)


def _has_handled(one: HostedConsumer, last: int) -> bool:
    return one.now is not None and (one.now.handled or 0) >= last


@asynccontextmanager
async def history(common: CommonOptions) -> AsyncIterator[RecordedHistory]:
    """The home's bus and its store, with the whole stream joined where there is no run to do it.

    Raises StoreError where there are no experiences yet.
    """
    home, settings = common.existing(), common.settings()
    reader = open_store(home, settings)
    try:
        async with open_bus(home, settings) as bus:
            found = RecordedHistory(home, settings, bus, reader, home.running() is None and settings.bus.url is None)
            if found.alone:
                await found.take_in((await bus.state()).last)
            yield found
    finally:
        reader.close()
