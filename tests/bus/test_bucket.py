"""The bucket on a server: each part of a key a word of its own, and nothing in it that takes other keys away."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from conch.bus import Bus
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.jetstream.connection import Connection

if TYPE_CHECKING:
    from tests.bus.conftest import Server


OLD = {"name": "KV_conch", "subjects": ["$KV.conch.>"], "max_msgs_per_subject": 1, "discard": "new"}
"""The bucket as it was made before keys had parts."""


async def test_a_bucket_from_before_keys_had_parts_is_taken_over(server: Server) -> None:
    """Each value under the same key, once; entered again nothing is changed."""
    url = server.start("jetstream {}")
    async with Connection(Access(url)) as connection:
        await connection.api("STREAM.CREATE.KV_conch", OLD | {"allow_rollup_hdrs": True, "deny_delete": True})
        for key in ("position/needs", "state/needs/echo", "home"):
            await connection.ask(f"$KV.conch.{key}", key.encode())

    for _ in range(2):
        async with JetStreamBus(Access(url)) as bus:
            assert list(await bus.keys()) == ["home", "position/needs", "state/needs/echo"]
            entries = [await bus.get(key) for key in await bus.keys()]
            assert [entry.value for entry in entries if entry is not None] == [
                b"home", b"position/needs", b"state/needs/echo",
            ]  # fmt: skip
    async with Connection(Access(url)) as connection:
        info = await connection.api("STREAM.INFO.KV_conch", {"subjects_filter": ">"})
        assert "$KV.conch.state.needs.echo" in info["state"]["subjects"]
        assert not [subject for subject in info["state"]["subjects"] if "/" in subject]


async def test_whoever_may_write_one_key_cannot_take_the_others_away(serve: Callable[[str], str]) -> None:
    """A roll-up empties the whole bucket where it is allowed; here the server refuses it."""
    async with JetStreamBus(Access(serve("jetstream {}"))) as bus:
        await bus.put("position/needs", b"1", revision=0)

        reply = await _rolled_up(bus, "$KV.conch.position.reward")

        assert b"rollup not permitted" in reply
        assert list(await bus.keys()) == ["position/needs"]


async def test_whoever_may_say_one_fact_cannot_take_the_others_away(serve: Callable[[str], str]) -> None:
    """The same on the stream."""
    async with JetStreamBus(Access(serve("jetstream {}"))) as bus:
        stored = await bus.publish("conch.v1.echo.action.taken", b"{}", id="kept")

        reply = await _rolled_up(bus, "conch.v1.echo.reward.assigned")

        assert b"rollup not permitted" in reply
        assert await bus.at(stored.seq) is not None


async def _rolled_up(bus: Bus, subject: str) -> bytes:
    assert isinstance(bus, JetStreamBus)
    return (await bus._connection.ask(subject, b"", headers=b"Nats-Rollup:all\r\n")).data
