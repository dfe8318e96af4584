"""`conch consumer`: how far everybody is, begun again, given up; over a real server."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Bus
from conch.cli import consumer
from conch.cli.common import CommonOptions, open_bus
from conch.config import Settings
from conch.consumer import ConsumerSpec
from conch.consumer.group.lag import report_position, standings
from conch.consumer.runtime.dead_letters import dead_letter, publish_dead_letter
from conch.errors import ConchError, UsageError
from conch.experience import SqliteReader, SqliteStore
from conch.home import Home
from conch_schemas import ActionTaken, GoalSet, subject_filter

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Life, Publish


Printed = Callable[[], str]


@asynccontextmanager
async def worker(bus: Bus, *consumers: str) -> AsyncIterator[None]:
    """One that gives signs of life while entered, and leaves the last one behind."""

    async def beat() -> None:
        revision = 0
        while True:
            value = {"consumers": consumers, "beat": revision}
            revision = await bus.put("worker/w-1", json.dumps(value).encode(), revision=revision)
            await asyncio.sleep(0.002)

    beating = asyncio.create_task(beat())
    while await bus.get("worker/w-1") is None:
        await asyncio.wait({beating}, timeout=0.01)
    yield
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)


@pytest.fixture(autouse=True)
def _short_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "SIGN_SECONDS", 0.05)


async def test_consumers_are_listed_with_their_lag(
    life: Life,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
) -> None:
    """With and without a run: what each has done, the events of its own kinds that wait, and its letters."""
    async with in_progress() as bus:
        await publish(bus, life.act(0))
        delivery = await bus.last(subject_filter(ActionTaken, "echo"))
        await publish_dead_letter(
            bus, dead_letter(ConsumerSpec("reward", "1", (ActionTaken,), lambda _: None), delivery, "bad", 5)
        )
        await publish(bus, life.act(1), life.act(2))
        await report_position(bus, "reward", [ActionTaken], 1)
        await report_position(bus, "needs", [ActionTaken], 4)
        await report_position(bus, "goals", [GoalSet], 0)
        await consumer.list_(common=replace(common, json=True))
        during = printed()
    await consumer.list_(common=replace(common, json=True))
    after = printed()
    await consumer.lag(common=replace(common, json=True))
    lag = json.loads(printed())

    listed = json.loads(during)
    assert after == during
    assert listed["last"] == 4
    assert [(one["name"], one["acknowledged"], one["lag"], one["letters"]) for one in listed["consumers"]] == [
        ("goals", 0, 0, 0),
        ("needs", 4, 0, 0),
        ("reward", 1, 2, 1),
    ]
    assert lag["consumers"] == [{"name": "reward", "lag": 2}, {"name": "goals", "lag": 0}, {"name": "needs", "lag": 0}]


async def test_a_reset_consumer_begins_again(home: Home, common: CommonOptions, in_progress: InProgress) -> None:
    """`consumer reset` empties a consumer's place and states, not during a run, and not one that is not there."""
    async with in_progress() as bus:
        await report_position(bus, "reward", [ActionTaken], 0)
        await bus.put("state/reward/echo", b"{}", revision=0)
        with pytest.raises(ConchError, match="run in progress") as refusal:
            await consumer.reset("reward", common=common)
    with pytest.raises(ConchError, match="no consumer 'rewards' keeps its place on the bus: reward"):
        await consumer.reset("rewards", common=common)

    await consumer.reset("reward", common=common)
    await consumer.reset("reward", common=common)

    assert refusal.value.exit_code == 1
    async with open_bus(home, Settings()) as bus:
        entries = [await bus.get(key) for key in ("position/reward", "state/reward/echo")]
    assert [entry.value for entry in entries if entry is not None] == [b"", b""]


async def test_the_store_begins_again_beside_its_rows(home: Home, common: CommonOptions) -> None:
    """Its place stands in its own file: reset, it reads the stream from the start, and keeps what it has joined."""
    async with open_bus(home, Settings()) as bus:
        await report_position(bus, "store", [ActionTaken], 0)
    with pytest.raises(ConchError, match="there is no store at"):
        await consumer.reset("store", common=common)
    with SqliteStore(home.path / "store.db") as store:
        store.set_epoch("e")
        store.set_position(7)

    await consumer.reset("store", common=common)

    with SqliteReader(home.path / "store.db") as reader:
        assert (reader.position(), reader.epoch()) == (0, "e")


async def test_a_consumer_that_is_gone_for_good_is_forgotten(
    home: Home, common: CommonOptions, in_progress: InProgress, printed: Printed
) -> None:
    """During a run too, as nobody else's work; not one that is not there, not the store, and not without a yes."""
    async with in_progress() as bus:
        await report_position(bus, "joy", [ActionTaken], 0)
        await report_position(bus, "reward", [ActionTaken], 0)
        for refused, why in (("grief", "no consumer 'grief' keeps its place"), ("store", "is not forgotten")):
            with pytest.raises(ConchError, match=why):
                await consumer.forget(refused, yes=True, common=common)
        with pytest.raises(UsageError, match="add --yes"):
            await consumer.forget("joy", common=common)
        printed()

        await consumer.forget("joy", yes=True, common=replace(common, json=True))

        assert [one.name for one in await standings(bus)] == ["reward"]
    assert json.loads(printed()) == {"schema": "conch.v1.forgotten", "consumer": "joy"}


@pytest.mark.parametrize(
    "command", [consumer.reset, lambda name, common: consumer.forget(name, yes=True, common=common)]
)
async def test_a_consumer_at_work_is_left_alone(home: Home, common: CommonOptions, command: Any) -> None:
    """A worker that gives signs of life is told to end first; the last sign of one that was killed says nothing."""
    async with open_bus(home, Settings()) as bus:
        await report_position(bus, "reward", [ActionTaken], 0)
        await report_position(bus, "needs", [ActionTaken], 0)
        async with worker(bus, "reward"):
            with pytest.raises(ConchError, match="reward is at work in w-1"):
                await consumer._refuse_at_work(bus, "reward")
            await consumer._refuse_at_work(bus, "needs")

    await command("reward", common=common)

    async with open_bus(home, Settings()) as bus:
        assert [one.name for one in await standings(bus)] == ["needs"]


async def test_an_agent_that_is_gone_keeps_its_memory(
    home: Home, common: CommonOptions, in_progress: InProgress
) -> None:
    """What it has not read is given up, no more; one that answers is left alone."""
    async with in_progress() as bus:
        state = await bus.state()
        memory = {"seq": 3, "epoch": "older", "memory": {"next_cycle": 9}}
        await bus.put("agent/old", json.dumps(memory).encode(), revision=0)
        with pytest.raises(ConchError, match="no memory stands on the bus under 'agent/new'"):
            await consumer.forget("agent/new", yes=True, common=common)

        async def answer(_: str, __: bytes) -> bytes:
            return b"{}"

        async with bus.serve("conch.ctl.old.status", answer):
            with pytest.raises(ConchError, match="agent/old is at work"):
                await consumer.forget("agent/old", yes=True, common=common)
        await consumer.forget("agent/old", yes=True, common=common)

        entry = await bus.get("agent/old")
        assert entry is not None
        assert json.loads(entry.value) == memory | {"seq": state.last, "epoch": state.epoch}


@pytest.mark.parametrize(("typed", "gone"), [("y\n", True), ("yes\n", True), ("\n", False), ("no\n", False)])
async def test_a_person_is_asked(
    home: Home, common: CommonOptions, monkeypatch: pytest.MonkeyPatch, typed: str, gone: bool
) -> None:
    """Anything but a yes leaves all as it is."""

    class Terminal:
        isatty = staticmethod(lambda: True)
        readline = staticmethod(lambda: typed)

    async with open_bus(home, Settings()) as bus:
        await report_position(bus, "joy", [ActionTaken], 0)
    monkeypatch.setattr("sys.stdin", Terminal)

    if gone:
        await consumer.forget("joy", common=common)
    else:
        with pytest.raises(ConchError, match="nothing was done"):
            await consumer.forget("joy", common=common)

    async with open_bus(home, Settings()) as bus:
        assert bool(await standings(bus)) is not gone


def test_a_refusal_is_one_sentence(conch: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """And exit status 1; stdout has nothing."""
    result = conch("consumer", "forget", "store")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
