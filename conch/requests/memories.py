"""A person's request that an agent forgets memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from conch.home import Home

if TYPE_CHECKING:
    from conch.memory import LongTermMemory, StoredMemory


def forget_memories(home: Home, agent: str, store: LongTermMemory, memories: Sequence[StoredMemory]) -> None:
    """Delete memories for good, and the agent's notes of the same texts. The acts that they come from stay in the
    store. A second time changes nothing. Raises StoreError."""
    store.forget([one.id for one in memories])
    notes = home.agent_dir(agent) / "notes.db"
    if notes.exists():
        from conch.tools import Notes

        with Notes(notes) as kept:
            for one in memories:
                kept.forget(one.text)
