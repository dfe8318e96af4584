"""Pausing, resuming and stopping a running agent, and its reported state."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, NotRequired, TypedDict, TypeVar

from conch.cycle.hosting.interrupt import Interrupt

T = TypeVar("T")


class StoppedError(Exception):
    """The agent was told to stop while it waited; the next run finishes the open cycle."""


class GoalReport(TypedDict):
    """An active goal in an agent's report."""

    id: str
    statement: str
    best: float | None
    """The best that its check has measured, 0..1; None: it was not checked yet."""


class OpenQuestionReport(TypedDict):
    """What an agent waits for from its mind, in its report."""

    phase: str
    """think, decide or reflect."""
    seconds: float
    """Since it was asked."""
    tokens: int
    """Tokens of the reply so far, by an estimate."""


class BudgetReport(TypedDict):
    """A limit of the agent's budget in its report."""

    budget: str
    """The setting below `budget`, such as `tokens_per_hour`."""
    limit: float
    used: float
    """Used within the window, reservations included."""


class ApprovalReport(TypedDict):
    """An act that waits for a person's approval, in its agent's report."""

    id: str
    """By which `conch approve` names it."""
    act: str
    """Tool and operation."""
    until: str
    """When it is denied, ISO 8601, UTC."""
    why: str
    """The rule that asks, in a sentence."""


class TeamReport(TypedDict):
    """A team in its agent's report."""

    topology: str
    epoch: int
    step: int
    """The number of the step in progress, from 0."""
    turn: str
    """The role that has the turn."""
    tokens: int
    """Output tokens of all roles."""


class AgentReport(TypedDict):
    """What an agent replies about its state; the figures of its memory are left out where it has not begun."""

    agent: str
    state: str
    why: str
    """Why it is in that state; empty: there is no reason to tell."""
    cycle: int | None
    """Number of its last cycle; None: it has not begun."""
    needs: NotRequired[dict[str, float]]
    """Satisfaction by need, 0..1."""
    goals: NotRequired[list[GoalReport]]
    waiting: NotRequired[list[str]]
    """Messages that it has not read yet, cut."""
    waiting_count: NotRequired[int]
    tokens_in_hour: NotRequired[int]
    """Tokens used in the last hour."""
    budget: NotRequired[list[BudgetReport]]
    """The limits of its budget; left out where none is set."""
    until: NotRequired[str]
    """When it goes on, ISO 8601, UTC, where it waits at a limit that will have room."""
    policy: NotRequired[str]
    """Digest of the acting policy."""
    mind: NotRequired[str]
    """Kind and model of the mind that decides: of several, of the one that replied last."""
    phase: NotRequired[str]
    """Step of its cycle: think, while its mind is asked; ground, decide, act, reflect; rest: between two cycles."""
    asks: NotRequired[OpenQuestionReport]
    """The open question to its mind; left out before it has been open for 2 s."""
    approval: NotRequired[ApprovalReport]
    """The act that waits for a person's approval; left out where none does."""
    team: NotRequired[TeamReport]
    """The team that it is; left out of an agent alone."""


class Control:
    """Pause, resume and stop of one agent. `report` is called with every change of state, as (state, sentence).

    The state is the first of these that holds: ended; stopping; the latest trouble (bus, mind, budget, failed); paused;
    approval; asleep; running.
    """

    def __init__(self, report: Callable[[str, str], None], *, batch: bool = False) -> None:
        self._report = report
        self.batch = batch
        """Whether the run has a set number of cycles: then it does not wait for a mind that never answered."""
        self.stopping = False
        self.paused = False
        self._ended = False
        self.state, self.why = "starting", ""
        self._troubles: dict[str, str] = {}
        self._asks = self._asleep = ""
        self._changed, self._stopped = asyncio.Event(), asyncio.Event()
        self._end = Interrupt()

    def running(self) -> None:
        """Report that the agent has begun."""
        self._say()

    def ended(self) -> None:
        """Report that it has finished its cycles, while other agents go on."""
        self._ended = True
        self._say()

    def trouble(self, state: str, why: str) -> None:
        """Report a reason for which the agent waits, until `over`."""
        self._troubles.pop(state, None)
        self._troubles[state] = why
        self._say()

    def over(self, state: str) -> None:
        """Report that this reason is gone. A second call does nothing."""
        if self._troubles.pop(state, None) is not None:
            self._say()

    def asks(self, why: str) -> None:
        """Report that the agent waits for a person's approval of an act; with an empty text, that it does not."""
        self._asks = why
        self._say()

    def asleep(self, why: str) -> None:
        """Report that the agent sleeps, as there is nothing to do; with an empty text, that it is awake."""
        self._asleep = why
        self._say()

    def look_again(self) -> None:
        """Wake an agent that waits in `change`: something has come that may be what it waits for."""
        self._changed.set()

    def pause(self) -> None:
        """Wait before the next cycle; an act that waits for an approval waits for the resume, too."""
        self.paused = True
        self._say()

    def resume(self) -> None:
        """Go on. An agent that waits at a limit of its budget checks that again."""
        self.paused = False
        self._say()
        self._changed.set()

    def stop(self) -> None:
        """Stop: after the open cycle, or at once where it waits for its mind. A second call does nothing."""
        self.stopping = True
        self._say()
        self._stopped.set()
        self._changed.set()
        self._end.end(StoppedError)

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; told to stop meanwhile, it is cancelled and StoppedError raised."""
        return await self._end.around(work)

    async def sleep(self, seconds: float) -> None:
        """Sleep that long; a stop ends the sleep."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()

    async def change(self, seconds: float | None = None) -> None:
        """Wait for a resume, a stop or `look_again` since the last call, at most `seconds`: what changed while the
        caller looked is not lost. Returns at once when it was stopped before."""
        if not self.stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
        self._changed.clear()

    def _say(self) -> None:
        found = self._found()
        if found != (self.state, self.why):
            self.state, self.why = found
            self._report(*found)

    def _found(self) -> tuple[str, str]:
        if self._ended:
            return "ended", ""
        if self.stopping:
            return "stopping", "by request"
        if self._troubles:
            return next(reversed(self._troubles.items()))
        if self.paused:
            return "paused", "by request"
        if self._asks:
            return "approval", self._asks
        return ("asleep", self._asleep) if self._asleep else ("running", "")
