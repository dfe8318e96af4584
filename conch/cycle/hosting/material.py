"""Brings new material and goals to a workspace that Conch made and filled, between two cycles.

A piece comes when fewer than OPEN goals of pieces are open, one a cycle, and only one of a kind is open at a time:
where one of its kind is open, the piece is left out and the next kind comes. A goal that was not reached within LASTS
cycles is dropped. After every BATCH pieces comes a pause, once the goals of all of them are reached or dropped.

A pause lasts some tens of cycles, which depend on the seed and the pieces that came. The cycles of an agent that sleeps
do not go on; meanwhile its sleep counts cycles by `cycle.interval`, and asks for what is due before each. No clock has
a part here: which pieces came is a fold over the agent's events, and so is the cycle in which the last goal was over. A
process that is killed in a pause begins its successor in the same pause.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

from conch.cycle.inbox import Inbox
from conch.cycle.state.memory import ActiveGoal, AgentMemory
from conch.errors import ToolError, UsageError
from conch.log import get_logger
from conch.tools import Workspace
from conch.workspace import KEPT, MaterialPiece, MaterialScript, lay_out, put_away

OPEN: Final = 3
"""Most open goals of pieces: while there are so many, the next piece waits."""
LASTS: Final = 100
"""Cycles after which a piece's goal that was not reached is dropped."""
BATCH: Final = 25
"""Pieces from one pause to the next."""
PAUSE: Final = (10, 20)
"""Shortest and longest pause, in cycles."""
FIRST: Final = 1
"""The first cycle that a piece may come before."""
AGAIN: Final = 20
"""Cycles from a piece that could not be brought to the next try."""

log = get_logger(__name__)


class MaterialSupply:
    """Brings the pieces of a script to one agent's workspace, each at most once, in order.

    Which pieces came is part of the agent's memory, a fold over its `goal.set` events. A piece's files are written
    before its goal is set, and no file is written twice: a process that is killed between loses and doubles nothing.
    """

    def __init__(
        self, script: MaterialScript, workspace: Workspace, seed: int, inbox: Inbox, memory: Callable[[], AgentMemory]
    ) -> None:
        self._script, self._workspace, self._seed = script, workspace, seed
        self._inbox, self._memory = inbox, memory
        self._failed: int | None = None
        """The cycle of a piece that could not be brought."""

    def is_due(self, cycle: int) -> bool:
        """Whether a piece comes, or a goal is dropped, before this cycle."""
        if self._failed is not None and cycle < self._failed:  # it failed in a sleep, which counts ahead of the cycles
            self._failed = None
        due = self._due_at()
        return due is not None and cycle >= FIRST and due <= cycle

    async def bring(self, cycle: int) -> None:
        """Before a cycle: drop what is too old, and bring the next piece where one is due. Where its files cannot be
        written, or its goal cannot be set, it is tried again AGAIN cycles later. Raises BusError as publishing does."""
        if not self.is_due(cycle):
            return
        try:
            await self._drop_old(cycle)
            if self.is_due(cycle) and (number := self._next()) is not None:
                await self._bring(number)
            self._failed = None
        except (ToolError, UsageError) as error:
            self._failed = cycle
            log.warning("material.not_brought", piece=self._memory().next_piece, why=str(error))

    def _due_at(self) -> int | None:
        """The cycle before which a piece comes, or a goal is dropped for its age, if nothing happens until then. In a
        pause it is the end of that; None: never."""
        memory = self._memory()
        if memory.material is None:
            due = FIRST
        elif self._next() is not None:
            due = memory.material.cycle + 1
            if self._is_pause():
                over = memory.material.cycle if memory.material.over is None else memory.material.over
                due = over + pause_cycles(self._seed, memory.material.piece)
        elif pieces := self._open():
            due = min(active.since for active in pieces) + LASTS
        else:
            return None
        return due if self._failed is None else max(due, self._failed + AGAIN)

    def _open(self) -> list[ActiveGoal]:
        """The goals of pieces that are open."""
        return [active for active in self._memory().goals.values() if active.piece is not None]

    def _is_pause(self) -> bool:
        """Whether a pause lies between the last piece and the next one."""
        last = self._memory().material
        return last is not None and (last.piece + 1) % BATCH == 0

    def _next(self) -> int | None:
        """The number of the piece that comes next, in its time; None: it waits for a goal to be over. The files of a
        piece stay while its goal is open, so none comes KEPT numbers behind it."""
        pieces, number = self._open(), self._memory().next_piece
        if len(pieces) >= OPEN or (self._is_pause() and pieces):
            return None
        kinds = {self._script.piece(self._seed, active.piece).kind for active in pieces if active.piece is not None}
        first = min((active.piece for active in pieces if active.piece is not None), default=number)
        end = min(number + BATCH - number % BATCH, first + KEPT)
        return next((n for n in range(number, end) if self._script.piece(self._seed, n).kind not in kinds), None)

    async def _drop_old(self, cycle: int) -> None:
        for active in self._open():
            if cycle - active.since >= LASTS:
                await self._inbox.drop_goal(active.goal.id, f"it was open for {LASTS} cycles")

    async def _bring(self, number: int) -> None:
        memory = self._memory()
        skipped = () if memory.material is None else memory.material.skipped
        piece = self._script.piece(self._seed, number)
        olds = range(max(0, memory.next_piece - KEPT), number + 1 - KEPT)
        old = [self._script.piece(self._seed, n) for n in olds if n not in skipped]
        await asyncio.to_thread(self._write, piece, old)
        await self._inbox.set_goal(piece.goal, by="home", piece=number)

    def _write(self, piece: MaterialPiece, old: list[MaterialPiece]) -> None:
        for one in old:
            put_away(self._workspace, one)
        lay_out(self._workspace, piece)


def pause_cycles(seed: int, piece: int) -> int:
    """Cycles of the pause behind a piece: a pure function of both."""
    return random.Random(f"pause/{seed}/{piece}").randint(*PAUSE)  # noqa: S311 - no secret
