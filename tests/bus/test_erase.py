"""Events that are erased, and a bucket that is written anew: on every bus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conch.bus import Bus, erased_between, reconcile, record_erased
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer

if TYPE_CHECKING:
    from tests.conftest import Until

SUBJECT = "conch.v1.echo.action.taken"


async def fill(bus: Bus, *texts: bytes) -> None:
    """An event for each text, from sequence 1."""
    for number, text in enumerate(texts):
        await bus.publish(SUBJECT, text, id=str(number))


async def test_an_erased_event_is_gone_and_its_hole_is_no_damage(bus: Bus) -> None:
    """The first one, one in the middle and the last; the others are read in order."""
    await fill(bus, b"a", b"b", b"c", b"d", b"e")
    state = await bus.state()
    await reconcile(bus, 5, state.epoch)

    await record_erased(bus, [1, 3, 5])
    await bus.erase([1, 3, 5])

    assert [delivery.data async for delivery in bus.read([SUBJECT])] == [b"b", b"d"]
    found = await reconcile(bus, 5, state.epoch)
    assert found.whole, found.sentence


async def test_erasing_again_changes_nothing(bus: Bus) -> None:
    """Nor does writing it down again; what is erased later is put to it."""
    await fill(bus, b"a", b"b", b"c", b"d")
    for _ in range(2):
        await record_erased(bus, [2])
        await bus.erase([2])
    await record_erased(bus, [3])
    await bus.erase([3])

    assert await erased_between(bus, await bus.state()) == 2
    assert (await bus.state()).messages == 2


async def test_an_event_that_is_lost_beside_erased_ones_is_damage(bus: Bus) -> None:
    """Only the sequences that were written down are excused."""
    await fill(bus, b"a", b"b", b"c", b"d")
    await record_erased(bus, [2])
    await bus.erase([2, 3])

    assert (await reconcile(bus, 4, (await bus.state()).epoch)).missing == 1


async def test_a_bucket_written_anew_holds_these_values_alone(bus: Bus) -> None:
    """Its revisions go on; a second time, as after a kill, changes nothing."""
    await bus.put("state/a/b", b"before", revision=0)
    gone = await bus.put("letter/x", b"gone", revision=0)

    for _ in range(2):
        await bus.rewrite({"state/a/b": b"after"})

    assert list(await bus.keys()) == ["state/a/b"]
    entry = await bus.get("state/a/b")
    assert entry is not None
    assert (entry.value, entry.revision > gone) == (b"after", True)


async def test_no_file_of_the_server_keeps_the_bytes(nats_server: EmbeddedServer, until: Until) -> None:
    """Of an erased event, and of the earlier values of a key."""
    async with JetStreamBus(nats_server.access) as bus:
        await fill(bus, b"before", b"the secret words", b"behind")
        revision = await bus.put("agent/echo", b"the secret words", revision=0)
        await bus.put("agent/echo", b"plain", revision=revision)
        epoch = (await bus.state()).epoch

        await bus.erase([2])
        await bus.rewrite({"agent/echo": b"plain"})

        def holding() -> list[str]:
            files = [file for file in nats_server.directory.rglob("*") if file.is_file()]
            return [file.name for file in files if b"secret words" in file.read_bytes()]

        await until(lambda: not holding())
        assert (await bus.state()).epoch == epoch
