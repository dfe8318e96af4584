"""The store as a service on a bus: facts in, experiences out, once, whatever dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conch.bus import MemoryBus, MemoryJournal, OutgoingMessage, Stored, shared_subscription
from conch.config import RewardSettings, Settings
from conch.consumer import ServiceContext, bind
from conch.consumer.group.lag import standings
from conch.errors import StoreError
from conch.experience import SqliteReader
from conch.rewards import weight_set, weights_version
from conch_schemas import (
    ActionTaken,
    ConsumerFailed,
    ContractViolationError,
    Event,
    ExperienceRecorded,
    RewardAssigned,
    WeightsSet,
    decode,
    encode,
    subject_filter,
    subject_of,
)
from conch_services.curiosity.consumer import curiosity as curiosity_consumer
from conch_services.needs.consumer import needs as needs_consumer
from conch_services.reward.consumer import reward as reward_consumer
from conch_services.store import consumer, store_service

Until = Callable[..., Awaitable[None]]
Act = Callable[..., ActionTaken]


def context(home: Path, deadline: float = 30.0) -> ServiceContext:
    """A home whose parts wait `deadline` seconds."""
    return ServiceContext(Settings(rewards=RewardSettings(deadline=deadline)), home)


def facts(own: ServiceContext, action: ActionTaken) -> list[Event]:
    """The act, and what the three scorers say of it."""
    needs, curiosity = bind(needs_consumer, own), bind(curiosity_consumer, own)
    assert needs.initial is not None
    assert curiosity.initial is not None
    return [
        action,
        bind(reward_consumer, own).handle(action),
        needs.handle(needs.initial(), action)[1],
        curiosity.handle(curiosity.initial(), action)[1],
    ]


async def publish(bus: MemoryBus, *events: Event) -> None:
    """Put events on the bus."""
    for event in events:
        await bus.publish(subject_of(event), encode(event), id=event.id)


async def weights(bus: MemoryBus, own: ServiceContext, action: ActionTaken) -> None:
    """The weight set, before the act."""
    parts = weight_set((), own.settings.rewards)
    event = WeightsSet(
        id=str(uuid4()), source=action.source, agent=action.agent, version=weights_version(parts), parts=parts
    )
    await publish(bus, event)


async def recorded(bus: MemoryBus) -> list[ExperienceRecorded]:
    """Every experience on the bus."""
    events = []
    async for found in bus.read([subject_filter(ExperienceRecorded)]):
        with contextlib.suppress(ContractViolationError):
            events.append(decode(found.data))
    return [event for event in events if isinstance(event, ExperienceRecorded)]


@contextlib.asynccontextmanager
async def serving(bus: MemoryBus, own: ServiceContext) -> AsyncIterator[Any]:
    """The service at work; on leaving it is stopped in order."""
    stop, service = asyncio.Event(), store_service(own)
    async with shared_subscription(bus) as shared_events:
        task = asyncio.create_task(service.run(shared_events, stop))
        yield service
        stop.set()
        await task


async def test_an_act_and_its_scores_become_one_experience(tmp_path: Path, act: Act, until: Until) -> None:
    """Once every part has come the experience is said, with a total its breakdown adds up to."""
    own = context(tmp_path)
    async with MemoryBus() as bus:
        await weights(bus, own, act())
        async with serving(bus, own):
            await publish(bus, *facts(own, act()))
            await until(lambda: _count(bus, 1))

        [experience] = await recorded(bus)
    assert experience.complete
    assert experience.total == pytest.approx(sum(line.amount for line in experience.breakdown))
    assert [part.component for part in experience.scores] == [
        *("format", "execution", "needs", "goal", "exploration"),
        *("intrinsic", "alignment", "diversity", "starving", "repetition", "ethical", "progress"),
    ]
    assert all(part.status in ("scored", "not_applicable") for part in experience.scores)


async def _count(bus: MemoryBus, number: int) -> bool:
    return len(await recorded(bus)) >= number


async def test_facts_that_come_again_say_nothing_new(tmp_path: Path, act: Act, until: Until) -> None:
    """Every fact a second time, its id forgotten by the bus: one experience, and the repetitions are counted."""
    own = context(tmp_path)
    async with MemoryBus() as bus:
        await weights(bus, own, act())
        async with serving(bus, own) as service:
            await publish(bus, *facts(own, act()))
            await until(lambda: _count(bus, 1))
            bus.forget_ids()
            repeated = facts(own, act())
            await publish(bus, *repeated, act(cycle=2))
            await until(lambda: service.handled >= bus.journal.last)

        assert len(await recorded(bus)) == 1
        assert service.tally.duplicates >= len(repeated)


async def test_what_was_written_and_not_said_is_said_at_the_next_start(
    tmp_path: Path, act: Act, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between the transaction and the publish loses no experience, and doubles none."""
    own, journal = context(tmp_path), MemoryJournal()
    async with MemoryBus(journal) as bus, contextlib.AsyncExitStack() as stack:
        await weights(bus, own, act())
        with monkeypatch.context() as patch:
            patch.setattr(bus, "publish", _dying)
            stop = asyncio.Event()
            shared_events = await stack.enter_async_context(shared_subscription(bus))
            task = asyncio.create_task(store_service(own).run(shared_events, stop))
            async with MemoryBus(journal) as other:
                for event in facts(own, act()):
                    await other.publish(subject_of(event), encode(event), id=event.id)
            async with bus._changed:
                bus._changed.notify_all()
            with pytest.raises(ConnectionError):
                await task
        assert await recorded(bus) == []
        for number, garbage in enumerate((b"{", b'{"id":null}', b"[" * 100_000)):  # where experiences are looked for
            await bus.publish("conch.v1.echo.experience.recorded", garbage, id=f"garbage{number}")

    for _ in range(2):
        async with MemoryBus(journal) as bus:
            bus.forget_ids()
            async with serving(bus, own):
                await until(lambda bus=bus: _count(bus, 1))
    async with MemoryBus(journal) as bus:
        assert len(await recorded(bus)) == 1


async def _dying(*_: Any, **__: Any) -> None:
    raise ConnectionError("the process dies here")


async def test_others_see_on_the_bus_how_far_the_store_is(
    tmp_path: Path, act: Act, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it runs and after; where its file was put back to an earlier state, that is said before it reads on."""
    monkeypatch.setattr(consumer, "SETTLE_SECONDS", 0.01)
    own = context(tmp_path)
    async with MemoryBus() as bus:

        async def told() -> int:
            [found] = await standings(bus)
            return found.seq

        await weights(bus, own, act())
        async with serving(bus, own):
            await publish(bus, *facts(own, act()))
            await until(lambda: _count(bus, 1))
            await until(lambda: _equal(told(), bus.journal.last))
        (tmp_path / "store.db").unlink()
        stop = asyncio.Event()
        stop.set()
        async with shared_subscription(bus) as shared_events:
            await store_service(own).run(shared_events, stop)

        assert await told() == 0


async def _equal(told: Awaitable[int], wanted: int) -> bool:
    return await told == wanted


async def test_the_next_facts_are_written_while_the_last_are_said(
    tmp_path: Path, act: Act, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bus that is slow to take an experience holds up one transaction, not all; order and place hold."""
    own, free = context(tmp_path), asyncio.Event()
    async with MemoryBus() as bus:
        await weights(bus, own, act())
        async with serving(bus, own) as service:
            say = bus.publish_many

            async def slowly(messages: Sequence[OutgoingMessage]) -> Sequence[Stored]:
                await free.wait()
                return await say(messages)

            monkeypatch.setattr(bus, "publish_many", slowly)
            for cycle in range(4):
                await publish(bus, *facts(own, act(cycle=cycle)))
                await until(lambda cycle=cycle: _written(tmp_path) == min(cycle + 1, 2))
            ahead = service.handled
            free.set()
            await until(lambda: _count(bus, 4))
            await until(lambda: service.handled >= bus.journal.last)

        assert [event.cycle for event in await recorded(bus)] == [0, 1, 2, 3]
    assert ahead < 5


def _written(home: Path) -> int:
    """How many experiences its store holds."""
    with contextlib.suppress(StoreError), SqliteReader(home / "store.db") as reader:
        return len(reader.cycles.last("echo", 9))
    return 0


async def test_a_part_that_does_not_come_is_a_timeout_at_its_deadline(tmp_path: Path, act: Act, until: Until) -> None:
    """The experience is recorded incomplete, never with a zero; the part that comes later revises it."""
    own = context(tmp_path, deadline=0.05)
    action = act()
    found = facts(own, action)
    late = next(event for event in found if isinstance(event, RewardAssigned))
    async with MemoryBus() as bus:
        await weights(bus, own, action)
        async with serving(bus, own):
            await publish(bus, *(event for event in found if event is not late))
            await until(lambda: _count(bus, 1))
            await publish(bus, late)
            await until(lambda: _count(bus, 2))

        first, second = await recorded(bus)
    missing = {part.component: (part.status, part.value) for part in first.scores}
    assert missing["format"] == ("timeout", None)
    assert (first.complete, first.revision, second.complete, second.revision) == (False, 1, True, 2)


async def test_what_cannot_be_stored_becomes_a_letter_and_the_rest_goes_on(
    tmp_path: Path, act: Act, until: Until
) -> None:
    """Garbage, a forged subject and a fact that belongs to no action are set aside; the act beside them is recorded."""
    own = context(tmp_path)
    action = act()
    homeless = RewardAssigned(id="x", source=action.source, agent="echo", scorer="s", version="1", scores=())
    async with MemoryBus() as bus:
        await weights(bus, own, action)
        async with serving(bus, own):
            await bus.publish("conch.v1.echo.action.taken", b"\x00garbage", id="a")
            await bus.publish("conch.v1.other.action.taken", encode(action), id="b")
            await publish(bus, homeless, *facts(own, action))
            await until(lambda: _count(bus, 1))

        letters = [decode(found.data) async for found in bus.read([subject_filter(ConsumerFailed)])]
    assert len(letters) == 3
    assert all(isinstance(letter, ConsumerFailed) and letter.consumer == "store" for letter in letters)


async def test_a_running_store_takes_a_letter_again(tmp_path: Path, act: Act, until: Until) -> None:
    """Beside what it is joining: what is well now is joined, once; what is not says why."""
    own, forged = context(tmp_path), act(cycle=5_000_000)
    async with MemoryBus() as bus:
        await weights(bus, own, act())
        async with serving(bus, own):
            await publish(bus, *facts(own, act()), forged)
            await until(lambda: bus.count([subject_filter(ConsumerFailed)], after=0))

            async def ask(seq: int) -> dict[str, Any]:
                answer = await bus.request("conch.ctl._consumer.store.7.retry", b'{"seq":%d}' % seq, timeout=5)
                return dict(json.loads(answer))

            assert await ask(2) == {"ok": True}
            assert "comes right behind cycle 1" in (await ask(6))["error"]
            assert "no longer on the stream" in (await ask(99))["error"]
            await publish(bus, *facts(own, act(cycle=2)))
            await until(lambda: _count(bus, 2))
    with SqliteReader(tmp_path / "store.db") as reader:
        assert [row.cycle for row in reader.cycles.last("echo", 10)] == [1, 2]


async def test_the_store_goes_on_where_it_was(tmp_path: Path, act: Act, until: Until) -> None:
    """Stopped and started, it reads from its own position: every act is recorded once."""
    own, journal = context(tmp_path), MemoryJournal()
    async with MemoryBus(journal) as bus:
        await weights(bus, own, act())
    for cycle in range(4):
        async with MemoryBus(journal) as bus, serving(bus, own):
            await publish(bus, *facts(own, act(cycle=cycle)))
            await until(lambda bus=bus, cycle=cycle: _count(bus, cycle + 1))

    with SqliteReader(tmp_path / "store.db") as reader:
        assert [row.cycle for row in reader.cycles.last("echo", 10)] == [0, 1, 2, 3]
    async with MemoryBus(journal) as bus:
        assert sorted(event.cycle or 0 for event in await recorded(bus)) == [0, 1, 2, 3]
