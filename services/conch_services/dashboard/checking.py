"""Verification of agents' chains of marks in the background: in pieces, and one chain at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from conch.errors import BusError, CheckError, ConchError
from conch.experience import ExperienceReader, Removal
from conch.text import safe_text
from conch.views import Compared, SealedFacts, chain_start, lost_acts, store_place
from conch.witness import ForgottenRecords, MarkProblem, Verification
from conch_schemas import Mark
from conch_services.dashboard.world import DashboardContext

PIECE = 250
"""Marks that are read, hashed and compared at a time: some 40 ms in which a page may wait for a thread."""
LONGEST = 120.0
"""Timeout of a verification, in seconds: 100,000 marks take a fifth of that."""
MOST_AGENTS = 64
"""Agents with a remembered last verification."""


@dataclass
class ChainCheck:
    """One verification of one agent's chain, running or finished."""

    agent: str
    last: int
    """Sequence of the last mark that it includes."""
    marks: int = 0
    """Read so far."""
    acts: int = 0
    waiting: int = 0
    """Acts that have no mark yet."""
    unknown: int = 0
    """Acts without a mark of which is not known whether one is to come: the bus could not be asked."""
    problems: Sequence[MarkProblem] = ()
    why: str = ""
    """Why it could not be done, in a sentence."""
    removals: Sequence[Removal] = ()
    """Marks that retention removed from the chain."""
    compared: Compared | None = None
    """How much of what the marks seal was compared with the store."""
    seconds: float = 0.0
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def running(self) -> bool:
        """Whether it is running."""
        return self.task is not None and not self.task.done()

    @property
    def share(self) -> float:
        """How much of the chain is read, 0..1."""
        return min(1.0, self.marks / (self.last + 1))


class ChainChecks:
    """The last verification of each agent, and the task that runs the next."""

    def __init__(self, world: DashboardContext) -> None:
        self._world = world
        self._last: dict[str, ChainCheck] = {}
        self._one = asyncio.Semaphore(1)

    def of(self, agent: str) -> ChainCheck | None:
        """The agent's last verification, or the running one."""
        return self._last.get(agent)

    def upto(self, agent: str, last: int) -> ChainCheck:
        """A verification that includes mark `last`: the last one where it does or is running, else a new one."""
        known = self._last.get(agent)
        return self.begin(agent, last) if known is None or (known.last < last and not known.running) else known

    def begin(self, agent: str, last: int) -> ChainCheck:
        """Verify the chain up to mark `last`; returns the running verification where there is one."""
        known = self._last.pop(agent, None)
        if known is None or not known.running:
            known = ChainCheck(agent, last)
            known.task = self._world.tasks.start(self._made(known), name="conch.dashboard.verify")
        self._last[agent] = known
        idle = [name for name, one in self._last.items() if not one.running]
        for name in idle[: max(0, len(self._last) - MOST_AGENTS)]:
            del self._last[name]
        return known

    async def _made(self, check: ChainCheck) -> None:
        async with self._one:
            began = time.monotonic()
            try:
                async with asyncio.timeout(LONGEST):
                    await self._look(check)
            except CheckError as error:
                check.problems = (MarkProblem("changed", check.agent, None, safe_text(str(error), one_line=True)),)
            except ConchError as error:
                check.why = safe_text(str(error), one_line=True)
            except TimeoutError:
                check.why = f"it was given up after {LONGEST:g} s: conch mark verify takes as long as it needs"
            check.seconds = time.monotonic() - began

    async def _look(self, check: ChainCheck) -> None:
        place = await self._world.read(lambda reader: store_place(reader, check.agent))
        forgotten = ForgottenRecords(await self._world.read(lambda reader: reader.chain.forgotten(check.agent)))
        chain, start = Verification(check.agent, forgotten), 0
        sealed = SealedFacts(check.agent, stream=False, forgotten=forgotten)
        while start <= check.last:
            read = await self._world.read(partial(_taken, chain=chain, sealed=sealed, agent=check.agent, start=start))
            check.marks, start = check.marks + len(read), read[-1].sequence + 1 if read else check.last + 1
        # Behind the marks: what was removed while they were read is not missed.
        check.removals, check.acts = await self._world.read(
            lambda reader: _finished(reader, check.agent, sealed=sealed, chain=chain)
        )
        chain.begin_at(chain_start(check.removals))
        broken = await asyncio.to_thread(chain.broken)
        try:
            await sealed.prove(self._world.bus, chain, place)
        except BusError:
            check.unknown = len(sealed.unsealed.acts)
        sealed.problems += await self._world.read(lambda reader: lost_acts(reader, check.agent, sealed.recorded))
        check.waiting, check.compared = len(sealed.waiting), sealed.compared()
        check.problems = [*broken, *chain.unrecorded(sealed.unread), *sealed.problems]


def _finished(
    reader: ExperienceReader, agent: str, sealed: SealedFacts, chain: Verification
) -> tuple[list[Removal], int]:
    """(what was removed, how many acts there are), with what no mark seals found."""
    sealed.finish(reader, chain)
    return reader.retention.removals(agent), sum(1 for _ in reader.chain.acts(agent))


def _taken(reader: ExperienceReader, chain: Verification, sealed: SealedFacts, agent: str, start: int) -> list[Mark]:
    """The next piece of the chain, compared with what it seals; twins of its last mark belong to it."""
    found: list[Mark] = []
    for mark in reader.chain.marks(agent, start):
        if len(found) >= PIECE and mark.sequence != found[-1].sequence:
            break
        chain.take(mark)
        found.append(mark)
    sealed.take(reader, found)
    return found
