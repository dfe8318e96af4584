"""An event loop whose clock goes on by itself: where nothing is to be done, it jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from conch.cycle.publish import AgentPublisher
from conch_schemas import Event

T = TypeVar("T")

BEGAN = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)


class _Selector(selectors.DefaultSelector):
    """Selects without waiting, and lets the time pass that it would have waited. While a thread works it waits."""

    passed = 0.0
    working = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.working or timeout is None:
            return super().select(0.01 if timeout is None else min(timeout, 0.01))
        if not (ready := super().select(0)):
            self.passed += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time is `passed` seconds."""

    def __init__(self) -> None:
        self.virtual = _Selector()
        self.wall_offset = timedelta()
        """By which the wall clock was set."""
        super().__init__(self.virtual)

    def time(self) -> float:
        """Seconds that have passed."""
        return self.virtual.passed

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Work in a thread, during which no time passes."""
        self.virtual.working += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._worked)
        return future

    def _worked(self, _: Any) -> None:
        self.virtual.working -= 1

    def wall(self) -> datetime:
        """The wall clock."""
        return BEGAN + timedelta(seconds=self.virtual.passed) + self.wall_offset


_as_it_is = AgentPublisher.publish


async def _publish(publisher: AgentPublisher, event: Event) -> None:
    await _as_it_is(publisher, event.model_copy(update={"time": WallClock.now()}))


class WallClock(datetime):
    """Stands for `datetime`: now is the loop's wall clock."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        """The wall clock of the loop that runs."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return loop.wall()


def run_virtually(monkeypatch: pytest.MonkeyPatch, test: Coroutine[Any, Any, T]) -> T:
    """The test's result, in a loop of its own whose time goes on by itself; the agent's events have that time."""
    monkeypatch.setattr("conch.cycle.sleep.sleeper.datetime", WallClock)
    monkeypatch.setattr(AgentPublisher, "publish", _publish)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(test)
