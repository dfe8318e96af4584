"""A team, or an agent alone, in this process on a bus in memory: with a mind of no cost, and killed at will."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from conch.bus import MemoryBus, MemoryJournal, Stored, shared_subscription
from conch.config import Settings, TeamSettings
from conch.cycle.agent import Agent
from conch.cycle.context import AgentContext
from conch.cycle.control import Control
from conch.cycle.hosting.host import AgentHost
from conch.cycle.hosting.runner import AgentRunner, RunStart
from conch.cycle.schedule import Schedule
from conch.cycle.state.recover import RecoveredAgent, RecoveryStart
from conch.cycle.team.context import TeamContext
from conch.minds import Completion, Prompt
from conch.tools import BUILTIN_TOOLS, Notes, Sandbox, Toolbox, tell
from conch.values import Values
from conch_schemas import Event, ExperienceRecorded, Usage, decode

AGENTUID = "0b6f7a52-2f7d-4d8e-9d6e-6a5b1c5a7d10"
SETTINGS = Settings.model_validate({"agent": "crew", "cycle": {"interval": 0, "reflect_every": 0}})


class Killed(BaseException):
    """The process dies here."""


class DyingBus(MemoryBus):
    """Dies at the publish of this number, counted from 0: before it is stored, or stored and not acknowledged."""

    death = Killed

    def __init__(self, journal: MemoryJournal, at: int | None, *, stored: bool) -> None:
        super().__init__(journal)
        self._left, self._stored = at, stored

    async def publish(self, subject: str, data: bytes, *, id: str) -> Stored:
        if self._left is None:
            return await super().publish(subject, data, id=id)
        self._left -= 1
        if self._left >= 0:
            return await super().publish(subject, data, id=id)
        if self._stored:
            await super().publish(subject, data, id=id)
        raise Killed


class TalkingMind:
    """Sends a message in each turn of a team's planner; else it rests."""

    kind, model, learns = "bench", "bench-1", False

    async def complete(self, prompt: Prompt) -> Completion:
        turn = prompt.situation.turn
        said = "DO_NOTHING: resting"
        if prompt.purpose == "decide" and turn is not None:
            said = f'TOOL: tell(to="{turn.reachable[0]}", text="step {turn.step}")'
        return Completion(said, "stop", Usage(), self.model, 0.0)

    def learn(self, experience: ExperienceRecorded) -> None: ...

    async def close(self) -> None: ...


@dataclass
class Crew:
    """What outlives the process of a team, or of an agent alone."""

    team: TeamSettings | None
    seed: int = 0
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="conch-bench-")))
    at: RecoveredAgent | None = None

    async def run(self, until: int, at: int | None = None, *, stored: bool = False) -> float:
        """Every step below `until`, or to its death at the publish `at`; processor seconds."""
        began = time.process_time()
        self.journal.ids.clear()
        with Notes(self.folder / "notes.db") as notes:
            async with (
                DyingBus(self.journal, at, stored=stored) as bus,
                shared_subscription(bus) as shared_events,
            ):

                def make(recovered: RecoveredAgent, _: RunStart) -> Agent:
                    self.at = recovered
                    slots = asyncio.Semaphore(8)
                    team = None
                    if self.team is not None:
                        team = TeamContext("crew", self.team, self.folder, self.seed)
                    context = AgentContext(
                        shared_events,
                        TalkingMind(),
                        Toolbox((*BUILTIN_TOOLS, tell)),
                        Sandbox(SETTINGS.tools),
                        notes,
                        self.folder,
                        SETTINGS,
                        Values(),
                        AGENTUID,
                        slots,
                        slots,
                        team=team,
                    )
                    return Agent(context, recovered, control)

                async def furnish() -> None: ...

                control = Control(lambda state, why: None)
                begun = RunStart(until, 0)
                runner = AgentRunner(
                    "crew", RecoveryStart(AGENTUID), control, Schedule(0, None), make, furnish, begun=begun
                )
                await AgentHost(shared_events, [runner]).run()
        return time.process_time() - began

    def facts(self, *kinds: type[Event]) -> list[Event]:
        """What is on the stream of these kinds, in order."""
        events = (decode(delivery.data) for delivery in self.journal.events.values())
        return [event for event in events if isinstance(event, kinds or Event)]
