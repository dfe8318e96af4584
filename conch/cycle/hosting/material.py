"""Brings new material and goals to a workspace that Conch made and filled, between two cycles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from conch.cycle.inbox import Inbox
from conch.cycle.state.memory import AgentMemory
from conch.errors import ToolError, UsageError
from conch.log import get_logger
from conch.tools import Workspace
from conch.workspace import KEPT, MaterialPiece, MaterialScript, lay_out, put_away

EVERY: Final = 20
"""Cycles from one piece to the next. Of the kinds that there are, the embedded mind reaches most within 20 cycles."""
OPEN: Final = 5
"""Most open goals of pieces: while there are so many, the next piece waits."""
LASTS: Final = 200
"""Cycles after which a piece's goal that was not reached is dropped: an agent that reaches none of them still meets a
new piece every LASTS / OPEN cycles."""

log = get_logger(__name__)


class MaterialSupply:
    """Brings the pieces of a script to one agent's workspace, each once, in order.

    Which pieces came is part of the agent's memory, a fold over its `goal.set` events. A piece's files are written
    before its goal is set, and no file is written twice: a process that is killed between loses and doubles nothing.
    """

    def __init__(
        self, script: MaterialScript, workspace: Workspace, seed: int, inbox: Inbox, memory: Callable[[], AgentMemory]
    ) -> None:
        self._script, self._workspace, self._seed = script, workspace, seed
        self._inbox, self._memory = inbox, memory

    @staticmethod
    def due(cycle: int) -> bool:
        """Whether a piece may come before this cycle."""
        return cycle > 0 and cycle % EVERY == 0

    async def bring(self, cycle: int) -> None:
        """Before a cycle: bring the next piece where one is due. Where its files cannot be written, or its goal cannot
        be set, the next due cycle tries again. Raises BusError as publishing does."""
        if not self.due(cycle):
            return
        if (last := self._memory().material) is not None and last.cycle == cycle:
            return
        try:
            await self._drop_old(cycle)
            if sum(active.piece is not None for active in self._memory().goals.values()) < OPEN:
                await self._bring_next()
        except (ToolError, UsageError) as error:
            log.warning("material.not_brought", piece=self._memory().next_piece, why=str(error))

    async def _drop_old(self, cycle: int) -> None:
        for name, active in self._memory().goals.items():
            if active.piece is not None and cycle - active.since >= LASTS:
                await self._inbox.drop_goal(name, f"it was open for {LASTS} cycles")

    async def _bring_next(self) -> None:
        number = self._memory().next_piece
        piece = self._script.piece(self._seed, number)
        old = self._script.piece(self._seed, number - KEPT) if number >= KEPT else None
        await asyncio.to_thread(self._write, piece, old)
        await self._inbox.set_goal(piece.goal, by="home", piece=number)

    def _write(self, piece: MaterialPiece, old: MaterialPiece | None) -> None:
        if old is not None:
            put_away(self._workspace, old)
        lay_out(self._workspace, piece)
