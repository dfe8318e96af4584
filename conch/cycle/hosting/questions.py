"""Open questions to minds: which step asks, since when, how far the reply has come; and their report to the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic

from conch.cycle.model_retry import SILENT_SECONDS
from conch.errors import ModelError
from conch.minds import Completion, Mind, MindWrapper, Prompt, Purpose, ReplyProgress
from conch.processes import messages

REPORT_SECONDS = 1.0
"""Seconds between two reports."""


@dataclass(frozen=True)
class OpenQuestion:
    """A question to a mind that has no whole reply yet."""

    phase: Purpose
    progress: ReplyProgress = field(default_factory=ReplyProgress)
    began: float = field(default_factory=monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since it was asked."""
        return monotonic() - self.began

    @property
    def is_long(self) -> bool:
        """Whether it has been open for SILENT_SECONDS or longer."""
        return self.seconds >= SILENT_SECONDS


class WatchedMind(MindWrapper):
    """Asks a mind, and shows the question while it is open. One question is open at a time.

    A question whose reply could not be read is asked again: its completion says how many such replies there were.
    """

    def __init__(self, mind: Mind, changed: Callable[[OpenQuestion | None], None] = lambda _: None) -> None:
        """`changed` is called when a question is asked, and with None when it is over."""
        super().__init__(mind)
        self._changed = changed
        self.open: OpenQuestion | None = None
        self._unread = 0
        """Replies that could not be read since the last completion."""

    async def complete(self, prompt: Prompt) -> Completion:
        """The mind's reply. Raises what the mind raises."""
        self.open = OpenQuestion(prompt.purpose)
        self._changed(self.open)
        progress = self.open.progress
        progress.unread = self._unread
        try:
            reply = await self.mind.complete(replace(prompt, progress=progress))
            self._unread = 0
            return replace(reply, unread=progress.unread)
        except ModelError:
            self._unread = progress.unread
            raise
        finally:
            self.open = None
            self._changed(None)


class OpenQuestions:
    """The open questions of a process's agents, reported at most once a second while one of them is long."""

    def __init__(self, report: Callable[[messages.MindAsked], None]) -> None:
        self._report = report
        self._open: dict[str, OpenQuestion] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._shown = False

    def of(self, agent: str) -> Callable[[OpenQuestion | None], None]:
        """The function that takes this agent's open question, and None when it is over."""

        def changed(question: OpenQuestion | None) -> None:
            if question is not None:
                self._open[agent] = question
                if self._timer is None:
                    self._later(SILENT_SECONDS)
            else:
                self._open.pop(agent, None)
                if self._shown and not self._long():
                    self._over()

        return changed

    def is_open(self, agent: str) -> bool:
        """Whether the agent waits for its mind."""
        return agent in self._open

    def close(self) -> None:
        """Report nothing more. A second call does nothing."""
        if self._timer is not None:
            self._timer.cancel()

    def _later(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        if found := self._long():
            agent, question = max(found, key=lambda one: one[1].seconds)
            self._shown = True
            self._report(
                messages.MindAsked(
                    agent=agent,
                    phase=question.phase,
                    seconds=question.seconds,
                    tokens=question.progress.tokens,
                    agents=len(found),
                )
            )
        elif self._shown:
            self._over()
        if self._open:
            self._later(REPORT_SECONDS)

    def _long(self) -> list[tuple[str, OpenQuestion]]:
        return [(agent, question) for agent, question in self._open.items() if question.is_long]

    def _over(self) -> None:
        self._shown = False
        self._report(messages.MindAsked(agent="", phase="", seconds=0.0, tokens=0, agents=0))
