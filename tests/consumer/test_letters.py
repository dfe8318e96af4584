"""Dead letters whose fields somebody else chose."""

from __future__ import annotations

from typing import Any

from conch.bus import MemoryBus, MemoryJournal
from conch.consumer.runtime.dead_letters import open_dead_letters, publish_dead_letter, settle
from conch_schemas import ConsumerFailed, source_of


def letter(id: str, **parts: Any) -> ConsumerFailed:
    """One of this id."""
    plain: dict[str, Any] = {"consumer": "needs", "version": "1", "letter_subject": "conch.v1.echo.action.taken"}
    plain |= {"letter_seq": 1, "letter": "", "reason": "why", "tries": 1}
    return ConsumerFailed(id=id, source=source_of("echo", "-"), agent="echo", **{**plain, **parts})


async def test_a_letter_of_any_id_can_be_settled() -> None:
    """An id that is a command, or as long as an event, is no name of a key; the letter is settled all the same."""
    ids = [
        "0e0fc1b4-4ec4-4d1c-a9f2-3b7a5c1d2e3f",
        "x\r\nPUB conch.ctl.echo.stop 0\r\n\r\n",
        "é" * 5000,
        "",
        "a/b",
        "a.b",
    ]
    async with MemoryBus(MemoryJournal()) as bus:
        letters = [letter(id) for id in ids]
        for one in letters:
            await publish_dead_letter(bus, one)

        for one in letters[:-1]:
            await settle(bus, one, "dropped")

        assert [one.id async for one in open_dead_letters(bus)] == ["a.b"]
        assert f"letter/{ids[0]}" in await bus.keys()
