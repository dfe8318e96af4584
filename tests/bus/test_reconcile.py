"""Whether the stream is still the one that was read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Bus, MemoryBus, MemoryJournal
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.reconcile import reconcile, report_trimmed
from conch.bus.server import EmbeddedServer

if TYPE_CHECKING:
    from tests.conftest import World


SUBJECT = "conch.v1.echo.action.taken"


async def fill(bus: Bus, count: int) -> str:
    """`count` events; the stream's epoch."""
    for number in range(count):
        await bus.publish(SUBJECT, b"%d" % number, id=str(number))
    return (await bus.state()).epoch


async def put(bus: Bus, key: str, **value: Any) -> None:
    """A value of the bucket."""
    await bus.put(key, json.dumps(value).encode(), revision=0)


async def value(bus: Bus, key: str) -> Any:
    """What stands under it."""
    entry = await bus.get(key)
    assert entry is not None
    return json.loads(entry.value)


async def test_a_whole_stream_needs_no_word(bus: Bus) -> None:
    """Read to its end, in part, or not at all, nothing is amiss and nothing is changed."""
    epoch = await fill(bus, 5)
    await put(bus, "position/needs", seq=5, epoch=epoch, recent=[])
    before = await bus.get("position/needs")

    for position, known in ((5, epoch), (2, epoch), (0, "")):
        found = await reconcile(bus, position, known)
        assert found.whole
        assert (found.sentence, found.taken_back, found.position) == ("", (), position)
    assert await bus.get("position/needs") == before


async def test_a_shorter_stream_takes_every_place_back_to_its_end(bus: Bus) -> None:
    """What is appended later is then skipped by nobody; the state itself stays, the second time nothing changes."""
    epoch = await fill(bus, 3)
    await put(bus, "position/needs", seq=9, epoch=epoch, recent=["a"])
    await put(bus, "state/needs/echo", seq=8, epoch=epoch, state={"n": 1})
    await put(bus, "state/needs/delta", seq=2, epoch=epoch, state={"n": 2})
    await put(bus, "agent/echo", seq=9, read=7, epoch=epoch, memory={})

    found = await reconcile(bus, 10, epoch)

    assert (found.another, found.lost, found.position) == (False, 7, 3)
    assert set(found.taken_back) == {"position/needs", "state/needs/echo", "agent/echo"}
    assert "its last 7 events are gone" in found.sentence
    assert "read up to 10" in found.sentence
    assert await value(bus, "position/needs") == {"seq": 3, "epoch": epoch, "recent": ["a"]}
    assert await value(bus, "state/needs/echo") == {"seq": 3, "epoch": epoch, "state": {"n": 1}}
    assert await value(bus, "state/needs/delta") == {"seq": 2, "epoch": epoch, "state": {"n": 2}}
    assert await value(bus, "agent/echo") == {"seq": 3, "read": 3, "epoch": epoch, "memory": {}}
    assert (await reconcile(bus, 10, epoch)).taken_back == ()


async def test_who_is_at_work_meanwhile_keeps_its_place(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have handled what came since the stream was looked at: that is no place beyond its end."""
    epoch = await fill(bus, 3)
    state, looked = bus.state, asyncio.Event()

    async def work() -> Any:
        found = await state()
        if not looked.is_set():
            looked.set()
            await fill(bus, 5)  # two more
            await put(bus, "position/needs", seq=5, epoch=epoch, recent=[])
            await put(bus, "state/needs/echo", seq=5, epoch=epoch, state={"n": 1})
        return found

    monkeypatch.setattr(bus, "state", work)
    found = await reconcile(bus, 3, epoch)

    assert found.taken_back == ()
    assert (await value(bus, "position/needs"))["seq"] == (await value(bus, "state/needs/echo"))["seq"] == 5


async def test_another_stream_is_read_from_its_start(bus: Bus) -> None:
    """Places of the one that was there before mean nothing on it."""
    epoch = await fill(bus, 5)
    await put(bus, "position/needs", seq=4, epoch="older", recent=[])
    await put(bus, "state/needs/echo", seq=4, epoch="older", state={})

    found = await reconcile(bus, 100, "older")

    assert (found.another, found.position, found.lost) == (True, 0, 0)
    assert "made anew" in found.sentence
    assert await value(bus, "position/needs") == {"seq": 0, "epoch": epoch, "recent": []}
    assert (await value(bus, "state/needs/echo"))["seq"] == 0


async def test_events_that_went_before_they_were_read_are_counted(bus: Bus) -> None:
    """The stream begins behind what the store has read."""
    epoch = await fill(bus, 10)
    await bus.trim(7)

    found = await reconcile(bus, 4, epoch)

    assert (found.unread, found.whole) == (2, False)
    assert "2 events are gone that the store had not read" in found.sentence
    assert (await reconcile(bus, 6, epoch)).whole


async def test_gaps_are_counted() -> None:
    """Trimming leaves none, so they are damage."""
    journal = MemoryJournal()
    async with MemoryBus(journal) as bus:
        epoch = await fill(bus, 10)
        del journal.events[4], journal.events[5]

        found = await reconcile(bus, 10, epoch)

    assert (found.missing, found.whole) == (2, False)
    assert "2 events between 1 and 10" in found.sentence


async def test_events_that_went_without_being_trimmed_are_said_once(world: World) -> None:
    """Whoever has read them: only trimming takes away the stream's beginning."""
    async with world.bus() as bus:
        epoch = await fill(bus, 10)
        assert (await reconcile(bus, 10, epoch)).whole
        await report_trimmed(bus, 4, epoch)
        await bus.trim(4)
        assert (await reconcile(bus, 10, epoch)).whole
        await bus.trim(7)  # by nobody who says so

        found = await reconcile(bus, 10, epoch)

        assert (found.untrimmed, found.whole) == (3, False)
        assert "its first 3 events are gone and were not trimmed" in found.sentence
        assert (await reconcile(bus, 10, epoch)).whole


async def test_what_is_no_place_is_left_alone(bus: Bus) -> None:
    """Empty values, garbage, and keys of other kinds."""
    epoch = await fill(bus, 1)
    await bus.put("position/reset", b"", revision=0)
    await bus.put("position/garbage", b"\xff{", revision=0)
    await bus.put("state/list/echo", b"[9]", revision=0)
    await put(bus, "letter/a", seq=99, epoch=epoch)

    assert (await reconcile(bus, 1, epoch)).taken_back == ()


def blocks(server: EmbeddedServer) -> list[Path]:
    """The stream's files, oldest first."""
    folder = server.directory / "jetstream" / "$G" / "streams" / "CONCH" / "msgs"
    return sorted(folder.glob("*.blk"), key=lambda path: int(path.stem))


def damage_description(server: EmbeddedServer) -> None:
    """The stream's own description is garbage."""
    blocks(server)[0].parent.with_name("meta.inf").write_bytes(b"\x00garbage" * 20)


def damage_end(server: EmbeddedServer) -> None:
    """Half of the newest file is gone, and the index with it."""
    newest = blocks(server)[-1]
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    newest.with_name("index.db").unlink()


def damage_middle(server: EmbeddedServer) -> None:
    """Something else was written over the oldest file's middle, and the index is gone."""
    oldest = blocks(server)[0]
    data = bytearray(oldest.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 3000] = b"\xaa" * 3000
    oldest.write_bytes(data)
    oldest.with_name("index.db").unlink()


def damage_beginning(server: EmbeddedServer) -> None:
    """The oldest file of events is gone."""
    blocks(server)[0].unlink()


def damage_everything(server: EmbeddedServer) -> None:
    """All files of events are gone."""
    for path in blocks(server):
        path.unlink()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (damage_description, ""),
        (damage_end, "events are gone"),
        (damage_middle, "damaged or gone"),
        (damage_beginning, "events are gone and were not trimmed"),
        (damage_everything, "the store had not read"),
    ],
)
async def test_a_damaged_stream_is_found_out(damage: Any, says: str, nats_server: EmbeddedServer) -> None:
    """The server comes back without a word, with what it can read; the numbers tell what is gone, the bus works on."""
    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus:
        await asyncio.gather(*(bus.publish(SUBJECT, b"x" * 7000, id=str(number)) for number in range(1300)))
        before = await bus.state()  # two files
        assert (await reconcile(bus, 1300, before.epoch)).whole
        await put(bus, "position/needs", seq=1300, epoch=before.epoch, recent=[])
    await nats_server.stop()
    damage(nats_server)

    await nats_server.start()
    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus:
        found = await reconcile(bus, 1300 if damage is not damage_everything else 1250, before.epoch)
        again = await bus.publish(SUBJECT, b"new", id="new")
        readable = [delivery.seq async for delivery in bus.read([SUBJECT])]

    assert says in found.sentence
    assert (found.sentence == "") == (says == "")
    assert not found.another
    assert len(readable) == found.stream.messages + 1
    assert readable[-1] == again.seq == found.stream.last + 1
    if damage is damage_description:
        assert found.stream == before


async def test_a_stream_that_was_made_anew_is_another(nats_server: EmbeddedServer) -> None:
    """The server's whole store is gone, or only the events': the epoch tells."""
    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus:
        epoch = await fill(bus, 3)
        await bus._connection.api("STREAM.DELETE.CONCH")
    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus:
        await fill(bus, 1)
        found = await reconcile(bus, 3, epoch)

    assert found.another
    assert found.stream.epoch != epoch
