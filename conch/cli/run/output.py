"""The output of a run: lines about itself, a line for every cycle, and one for every alarm."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from conch.bus import Bus
from conch.cli.common import emit, say, tell, warn, wrapped
from conch.cli.wait_line import WaitLine
from conch.log import get_logger
from conch.text import safe_text

if TYPE_CHECKING:
    from conch.processes import messages
    from conch_schemas import ExperienceRecorded, GoalReached, GoalSet

log = get_logger(__name__)

MOMENT = 0.3
"""Seconds in which agents with the same message are gathered."""
WHY = 200
"""Characters of the reason why a component could not be scored."""


class RunOutput:
    """Writes the lines of these agents to stdout and stderr. `stop` is set when the reader of stdout has closed it."""

    def __init__(self, stop: asyncio.Event, agents: Sequence[str], *, as_json: bool, others: bool = False) -> None:
        """`others`: agents come in the course of the run, see `take_up`."""
        self._stop, self._json, self._agents = stop, as_json, set(agents)
        self._width = max(map(len, agents)) if others or len(agents) > 1 else 0
        self._states: dict[tuple[str, str], list[str]] = {}
        """(state, why) -> the agents that reported it in this moment."""
        self._recorded: dict[str, int] = {}
        """The last cycle of each agent that was recorded in this run."""
        self.explains = not as_json
        """Whether what comes is for a person: goals at the start, names above the columns, a summary at the end."""
        self._is_terminal = sys.stdout.isatty() and not as_json
        self.totals: list[float] = []
        """The total of each cycle that was printed, as it was first recorded."""
        self.reached: list[str] = []
        """The statements of the goals that were reached."""
        self.new_goals: list[str] = []
        """The statements of the goals that were set during the run."""
        self._failed: set[str] = set()
        """Components that could not be scored, and of which that was said."""
        self._at = 0
        """Stream sequence up to which experiences and alarms were printed."""
        self._news = asyncio.Event()
        self._wait_line = WaitLine(enabled=self._is_terminal)
        self._lost = False
        """Whether a line of stdout could not be written."""
        self.cycle_told = time.monotonic()
        """When the last cycle's line was written; at first, when this was made."""

    def take_up(self, agent: str) -> None:
        """Write the lines of another agent, too."""
        self._agents.add(agent)
        self._width = max(self._width, len(agent))

    def tell(self, text: str) -> None:
        """A line about the run itself: beside the rows with --json."""
        self._write(tell if self.explains else warn, text)

    def warn(self, text: str) -> None:
        """A line on stderr."""
        if self._is_terminal:
            text = "\n".join(wrapped(safe_text(text), get_terminal_size().columns))
        self._write(warn, text)

    def state(self, agent: str, state: str, why: str, *, asks: bool = False) -> None:
        """Print what an agent waits for; the same message of many agents in one moment is one line. `asks`: it waits
        for its mind, which the renewed line says where there is one. That the only agent has failed ends the run,
        and its reason is said then."""
        if (asks and self._wait_line.enabled) or (state == "failed" and not self._width):
            return
        if self._width and not self._states:
            asyncio.get_running_loop().call_later(MOMENT, self.report_states)
        self._states.setdefault((state, why), []).append(agent)
        if not self._width:
            self.report_states()

    def report_states(self) -> None:
        """Say what was gathered so far."""
        said, self._states = self._states, {}
        for (state, why), agents in said.items():
            others = f" and {len(agents) - 1} more" if len(agents) > 1 else ""
            self.warn(f"{agents[0]}{others}: {state}: {why}")

    def waits(self, asked: messages.MindAsked) -> None:
        """Renew the line of what is waited for from minds; with no agent that waits, it goes."""
        if not self._wait_line.enabled:
            return
        others = f" (and {asked.agents - 1} more agents wait)" if asked.agents > 1 else ""
        from conch.views import waiting_words

        words = waiting_words(asked.phase, asked.seconds, asked.tokens)
        self._write(self._wait_line.show, f"{asked.agent} waits for its mind: {words}{others}" if asked.agents else "")

    async def cycles(self, bus: Bus, after: int, goals: Sequence[str] = ()) -> None:
        """Print a line for every experience when it is first recorded, for every goal that is set or reached and for
        every alarm; never returns. `goals`: statements of those that the home sets at the start, which are no news."""
        from conch_schemas import AlarmRaised, ExperienceRecorded, GoalReached, GoalSet, decode, subject_filter

        one = "*" if self._width else next(iter(self._agents))
        filters = [subject_filter(kind, one) for kind in (ExperienceRecorded, AlarmRaised, GoalSet, GoalReached)]
        async with bus.follow(filters, after=after) as reader:
            while True:
                for delivery in await reader.get():
                    with contextlib.suppress(ValueError):
                        event = decode(delivery.data)
                        if event.agent not in self._agents:
                            pass
                        elif isinstance(event, ExperienceRecorded):
                            self._report_cycle(event)
                        elif isinstance(event, AlarmRaised):
                            self.tell(safe_text(f"! {event.agent}: {event.what}", one_line=True))
                        elif isinstance(event, GoalSet | GoalReached):
                            self._report_goal(event, goals)
                    self._at = delivery.seq
                    self._news.set()

    def _report_goal(self, event: GoalSet | GoalReached, goals: Sequence[str]) -> None:
        from conch_schemas import GoalReached

        if isinstance(event, GoalReached):
            self.reached.append(event.statement)
            whose = f"{event.agent} reached the goal" if self._width else "goal reached"
            self.tell(safe_text(f"{whose}: {event.statement}", one_line=True))
        elif event.by != "home" or event.piece is not None or event.goal.statement not in goals:
            self.new_goals.append(event.goal.statement)
            proposed = event.by == "agent"
            news = "a goal of its own" if proposed else "a new goal"
            whose = f"{event.agent} has {news}" if self._width else "proposed goal" if proposed else "new goal"
            todo = f" (conch goal accept {event.goal.id})" if proposed else ""
            self.tell(safe_text(f"{whose}: {event.goal.statement}{todo}", one_line=True))

    def _report_cycle(self, event: ExperienceRecorded) -> None:
        from conch.views import cycle_row

        if event.revision == 1:
            self.cycle_told = time.monotonic()
            if self._json:
                self._write(emit, cycle_row(event))
            else:
                self._write(say, self._line(event))
            self.totals.append(event.total)
        self._report_failed(event)  # a score that is not waited for comes with a later revision
        self._recorded[event.agent] = max(event.cycle or 0, self._recorded.get(event.agent, 0))

    def _line(self, event: ExperienceRecorded) -> str:
        """The cycle in columns, the first with their names above; in a pipe no terminal's width limits them."""
        from conch.views import cycle_columns, cycle_header

        width = get_terminal_size().columns if self._is_terminal else sys.maxsize
        header = "" if self.totals else f"{cycle_header(width, self._width)}\n"
        return header + cycle_columns(event, width, self._width)

    def _report_failed(self, event: ExperienceRecorded) -> None:
        """Say of each component, once, that it could not be scored, and why."""
        for score in event.scores:
            if score.status in ("error", "timeout") and score.component not in self._failed:
                self._failed.add(score.component)
                why = safe_text(score.explanation, one_line=True)[:WHY] or score.status
                self.warn(f"{score.component} could not be scored: {why} (conch reward show {score.component})")

    async def told(self, cycles: Mapping[str, int], upto: int) -> None:
        """Return when these cycles, by agent, are recorded and printed, and all events up to this sequence."""
        while self._at < upto or any(self._recorded.get(agent, -1) < cycle for agent, cycle in cycles.items()):
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        """Discard what stdout has not taken by the end: the interpreter's own last attempt would be the run's error."""
        try:
            self._wait_line.clear()
            sys.stdout.flush()
        except OSError:
            _discard(1)

    def _write(self, write: Callable[[Any], None], what: Any) -> None:
        """Write; when the reader of stdout has closed it (`conch run | head`), the run ends in order. What a full disk
        does not take is lost, which is reported once."""
        try:
            if write != self._wait_line.show:
                self._wait_line.clear()
            write(what)
        except BrokenPipeError:
            _discard(2 if write is warn else 1)
            if write is not warn:
                self._stop.set()
        except OSError as error:
            log.warning("run.not_said", error=str(error))
            if write is not warn and not self._lost:
                self._lost = True
                self.warn(f"not all can be written to stdout ({error.strerror}); the run goes on")


def _discard(descriptor: int) -> None:
    """Let nothing more that is written to stdout or stderr arrive anywhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
