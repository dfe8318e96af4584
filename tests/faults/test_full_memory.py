"""No room for the memory: a sentence, and what was stored stays."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from conch.errors import StoreError
from conch.memory import LongTermMemory
from tests.memories import made


def test_a_full_disk_is_a_sentence_and_nothing_stored_is_lost(mounted: Callable[..., Path]) -> None:
    """With room again, the same memories are written."""
    place = mounted("-t", "tmpfs", "-o", "size=1m", "tmpfs")
    store = LongTermMemory(place / "memory.db")
    store.add([made("The tide is high")])
    filling = place / "filling"
    free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
    filling.write_bytes(bytes(max(0, free - 8192)))
    many = [made(f"{number} {'crab ' * 100}", number=number + 1) for number in range(50)]

    with pytest.raises(StoreError, match=r"cannot be used: .*full; make room"):
        store.add(many)

    assert [one.text for one in store.newest(100)] == ["The tide is high"]
    filling.unlink()
    assert store.add(many) == 50
    store.close()
