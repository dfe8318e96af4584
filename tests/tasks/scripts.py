"""Coroutines that behave as a script says, for the properties of primitives that start tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class ScriptError(Exception):
    """What a script raises; `turn` counts the errors of all scripts in the order of time."""


@dataclass(frozen=True)
class Script:
    """What one coroutine does, in turns of the event loop."""

    turns: int
    """Turns that it takes."""
    fails: bool
    """Whether it then raises, or returns."""
    last_turns: int
    """Turns that it takes to end, once it is cancelled."""
    fails_when_cancelled: bool
    """Whether it then raises an error in place of the cancellation."""


SCRIPTS = st.builds(Script, st.integers(0, 4), st.booleans(), st.integers(0, 3), st.booleans())


class Played:
    """What came of the scripts that were played."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.errors: list[ScriptError] = []
        """Errors of scripts that failed by themselves, the first one first."""

    async def play(self, number: int, script: Script) -> int:
        """Do what the script says; returns `number`."""
        self.begun.append(number)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for _ in range(script.turns):
                await asyncio.sleep(0)
            if script.fails:
                self.errors.append(ScriptError(number))
                raise self.errors[-1]
            return number
        except asyncio.CancelledError:
            for _ in range(script.last_turns):
                await asyncio.sleep(0)
            if script.fails_when_cancelled:
                raise ScriptError("cancelled") from None
            raise
        finally:
            self.running -= 1
            self.ended.append(number)


@dataclass
class Outcome:
    """How a call ended."""

    result: Any = None
    error: BaseException | None = None
    is_cancelled: bool = False
    was_asked: bool = False
    """Whether it was cancelled before it had ended."""
    left: int = 0
    """Tasks that were running when it had ended."""
    logged: int = 0
    """Errors that asyncio reports as never awaited."""


def called(make: Callable[[], Coroutine[Any, Any, Any]], cancel_at: list[int]) -> Outcome:
    """Run a call in a loop of its own; cancel it at these turns of the loop."""
    outcome = Outcome()

    async def call() -> Any:
        return await make()

    async def main() -> None:
        task = asyncio.create_task(call())
        turn = 0
        while not task.done():
            if turn in cancel_at:
                outcome.was_asked |= task.cancel()
            await asyncio.sleep(0)
            turn += 1
        outcome.left = len(asyncio.all_tasks()) - 1
        outcome.is_cancelled = task.cancelled()
        if not task.cancelled():
            outcome.error = task.exception()
            outcome.result = None if outcome.error is not None else task.result()

    def report(*_: Any) -> None:
        outcome.logged += 1

    with asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(report)
        runner.run(main())
    return outcome
