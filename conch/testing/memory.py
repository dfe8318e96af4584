"""The memory bus, for tests."""

from __future__ import annotations

from conch.bus import MemoryBus, MemoryJournal


def memory_bus(journal: MemoryJournal | None = None) -> MemoryBus:
    """A bus in memory, to be entered; it keeps the same promises as JetStream, without a server.

    `journal`: what a bus before it has stored (`bus.journal`): a bus over it goes on where that one died, as after a
    crash.

    ```python
    import conch
    from conch.testing import make_action_taken, memory_bus

    async with memory_bus() as first:
        await conch.publish(first, make_action_taken())

    async with memory_bus(first.journal) as second:  # a new process over the same stream
        assert (await second.state()).last == 1
    ```
    """
    return MemoryBus(journal)
