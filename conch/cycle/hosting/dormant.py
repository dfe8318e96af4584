"""An agent of the home that does not run in this process: its memory is kept up to date from the stream."""

from __future__ import annotations

from conch.bus import Bus, ReceivedEvent
from conch.cycle.state.memory import CYCLE_KINDS
from conch.cycle.state.recover import RecoveredAgent, save, take
from conch.log import get_logger
from conch_schemas import ContractViolationError

log = get_logger(__name__)


class DormantAgent:
    """Keeps a memory up to date, so that trimming the stream need not wait for the agent."""

    def __init__(self, name: str, agentuid: str, at: RecoveredAgent) -> None:
        self.name, self._agentuid = name, agentuid
        self.at: RecoveredAgent | None = at
        self._unwritten = at.read < at.end

    def hear(self, arrived: ReceivedEvent) -> None:
        """Take an event from the reader; an agent that acts elsewhere is no longer kept from then on."""
        if self.at is None or arrived.seq <= self.at.end:
            return
        try:
            event = arrived.event
        except ContractViolationError:
            return  # its consumers write a dead letter for it
        if isinstance(event, CYCLE_KINDS):
            log.info("agent.acts_elsewhere", agent=self.name)
            self.at = None
        else:
            take(self.at, event, arrived.seq)
            self._unwritten = True

    async def save(self, bus: Bus, upto: int) -> None:
        """Write its memory where it has changed; everything up to `upto` was passed to `hear`.

        Raises FencedError when another process wrote it.
        """
        if self.at is not None and self._unwritten:
            self.at.read, self._unwritten = max(self.at.read, upto), False
            await save(bus, self.name, self._agentuid, self.at)

    def end(self, error: Exception) -> None:
        """Stop keeping the memory: another process writes it."""
        log.info("agent.acts_elsewhere", agent=self.name, why=str(error))
        self.at = None
