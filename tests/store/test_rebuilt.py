"""A store that was deleted, or put back from a copy: it goes on with what stands on the stream."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Bus, MemoryBus, shared_subscription
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer
from conch.config import RewardSettings, Settings
from conch.consumer import ServiceContext
from conch.experience import SqliteReader, SqliteStore
from conch_schemas import Event, ExperienceRecorded, decode, encode, subject_filter, subject_of
from conch_services.store import consumer, store_service

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.store.conftest import Facts


@pytest.fixture
def own(tmp_path: Path) -> ServiceContext:
    """A home of the test's own."""
    return ServiceContext(Settings(rewards=RewardSettings(deadline=30.0)), tmp_path)


async def publish(bus: Bus, *events: Event) -> None:
    """Put events on the bus."""
    for event in events:
        await bus.publish(subject_of(event), encode(event), id=event.id)


async def said(bus: MemoryBus) -> list[ExperienceRecorded]:
    """Every experience on the bus."""
    found = [decode(one.data) async for one in bus.read([subject_filter(ExperienceRecorded)])]
    return [event for event in found if isinstance(event, ExperienceRecorded)]


@contextlib.asynccontextmanager
async def serving(bus: Bus, own: ServiceContext) -> AsyncIterator[Any]:
    """The service at work; on leaving it is stopped in order, having handled all."""
    stop, service = asyncio.Event(), store_service(own)
    async with shared_subscription(bus) as shared_events:
        task = asyncio.create_task(service.run(shared_events, stop))
        yield service
        stop.set()
        await task


async def served(bus: Bus, own: ServiceContext, until: Callable[..., Any]) -> None:
    """The service at work until nothing waits."""
    async with serving(bus, own) as service:
        end = (await bus.state()).last
        await until(lambda: service.handled >= end and not service.busy)


async def lived(bus: Bus, own: ServiceContext, facts: Any, until: Callable[..., Any]) -> None:
    """Three acts; of the second a part came late, so that its experience has two revisions."""
    late = facts.needs(2)
    await publish(bus, facts.weights(), *all_of(facts, 1), *[one for one in all_of(facts, 2) if one.id != late.id])
    await served(bus, own, until)
    await publish(bus, late, *all_of(facts, 3), facts.reflected(1))
    await served(bus, own, until)


def all_of(facts: Any, cycle: int) -> list[Event]:
    """The facts of one cycle."""
    return [facts.thought(cycle), facts.act(cycle), facts.reward(cycle), facts.needs(cycle), facts.novelty(cycle)]


def rows(own: ServiceContext) -> list[tuple[int, int, float, bool]]:
    """(cycle, revision, total, complete) of every experience in the store."""
    with SqliteReader(own.home / "store.db") as store:
        return [(one.cycle or 0, one.revision, one.total, one.complete) for one in store.cycles.last("echo", 100)]


def delete(own: ServiceContext) -> None:
    """The store's file is gone, with what stands beside it."""
    for file in own.home.glob("store.db*"):
        file.unlink()


async def test_a_deleted_store_says_nothing_again(own: ServiceContext, facts: Facts, until: Until) -> None:
    """It is rebuilt with the revisions that were said, each id keeps its one content, and it goes on from there."""
    async with MemoryBus() as bus:
        await lived(bus, own, facts, until)
        before, as_said = rows(own), await said(bus)
        delete(own)
        bus.forget_ids()

        await served(bus, own, until)

        assert rows(own) == before
        assert [one.revision for one in as_said] == [1, 1, 2, 1]
        assert await said(bus) == as_said
        await publish(bus, facts.reward(3, facts.score("format", 0.1, version="2"), version="2"))
        await served(bus, own, until)
        assert [(one.cycle, one.revision) for one in await said(bus)][-1] == (3, 2)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("batches", [0, 1, 5, 9])
async def test_a_rebuild_that_is_killed_goes_on(
    batches: int, own: ServiceContext, facts: Facts, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is cut off, the next one ends with the same rows and has said nothing again."""
    async with MemoryBus() as bus:
        await lived(bus, own, facts, until)
        before, as_said = rows(own), await said(bus)
        delete(own)
        bus.forget_ids()
        monkeypatch.setattr(consumer, "BATCH", 2)
        left, catch_up = iter(range(batches)), SqliteStore.catch_up

        def dies(store: SqliteStore, events: Any, **told: Any) -> None:
            if next(left, None) is None:
                raise Killed
            catch_up(store, events, **told)

        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "catch_up", dies)
            async with shared_subscription(bus) as shared_events:
                with pytest.raises(Killed):
                    await store_service(own).run(shared_events, asyncio.Event())

        await served(bus, own, until)

        assert rows(own) == before
        assert await said(bus) == as_said


async def test_a_store_put_back_from_a_copy_goes_on_with_what_was_said_since(
    own: ServiceContext, facts: Facts, until: Until
) -> None:
    """An older copy of the file reads the rest of the stream, and says none of it again."""
    async with MemoryBus() as bus:
        await publish(bus, facts.weights(), *all_of(facts, 1))
        await served(bus, own, until)
        shutil.copy(own.home / "store.db", own.home / "copy")
        await publish(bus, *all_of(facts, 2), facts.reward(1, facts.score("format", 0.1, version="2"), version="2"))
        await served(bus, own, until)
        before, as_said = rows(own), await said(bus)
        delete(own)
        (own.home / "copy").rename(own.home / "store.db")
        bus.forget_ids()

        await served(bus, own, until)

        assert rows(own) == before
        assert await said(bus) == as_said


async def test_a_trimmed_stream_keeps_the_totals_that_were_said(
    own: ServiceContext, facts: Facts, until: Until
) -> None:
    """What is left is rebuilt, also where the weight set that judged it is gone; nothing is judged anew without one."""
    async with MemoryBus() as bus:
        await lived(bus, own, facts, until)
        before, as_said = rows(own), await said(bus)
        [second] = [found.seq async for found in bus.read(["conch.v1.echo.action.taken"]) if b'"cycle":2' in found.data]
        await bus.trim(second)
        delete(own)
        bus.forget_ids()

        await served(bus, own, until)

        assert rows(own) == before[1:]
        left = Counter(one.id for one in await said(bus))
        assert set(left.values()) == {1}
        assert set(left) <= {one.id for one in as_said}


async def test_events_that_the_server_cannot_read_are_said(
    own: ServiceContext, facts: Facts, until: Until, nats_server: EmbeddedServer
) -> None:
    """A byte that was changed on the disk takes its event out without a word of the server's: the rebuild counts."""
    notes: list[str] = []
    noting = replace(own, report=lambda said: notes.append(said.note))
    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus:
        await publish(bus, facts.weights(), *all_of(facts, 1), *all_of(facts, 2))
    await nats_server.stop()
    [file] = nats_server.directory.rglob("streams/CONCH/msgs/*.blk")
    data = file.read_bytes()
    file.write_bytes(data.replace(b"thought 2 in short", b"thought 2 in shorT"))

    await nats_server.start()
    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus:
        await served(bus, noting, until)

    assert notes == ["1 events of the stream behind 0 are damaged and could not be joined"]
    assert [cycle for cycle, *_ in rows(own)] == [1]
