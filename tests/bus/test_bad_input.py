"""What others put on the bus, meant ill or not: a dead letter each, and nothing else is harmed."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Access, Bus, shared_subscription
from conch.bus.admit import MAX_PAYLOAD
from conch.bus.jetstream import JetStreamBus
from conch.bus.jetstream.connection import Connection
from conch.config import Settings
from conch.consumer import ServiceContext
from conch.consumer.group.membership import joined
from conch.consumer.host import HostedConsumer, host
from conch.consumer.process import builtin, quiet
from conch.consumer.runtime.dead_letters import open_dead_letters
from conch.errors import BusError
from conch.experience import FACTS, SqliteReader
from conch.folds.order import MOST_LEAP
from conch.rewards import weight_set, weights_version
from conch_schemas import (
    EVENTS,
    MAX_EVENT_BYTES,
    OF_TRAINING,
    ActApproved,
    ActDenied,
    ActionTaken,
    AgentPaused,
    AgentResumed,
    AgentWoke,
    AlarmRaised,
    AnswerRated,
    ContractViolationError,
    CycleReflected,
    Event,
    ExperienceRecorded,
    ForkScored,
    GoalAccepted,
    GoalDropped,
    GoalReached,
    GoalSet,
    MessageReceived,
    MessageSent,
    NeedsChanged,
    NoveltyMeasured,
    PersonForgotten,
    PolicySet,
    ReviewDecided,
    RewardAssigned,
    TaskProgressed,
    WeightsSet,
    action_id,
    cycle_event_id,
    decode,
    encode,
    subject_filter,
    subject_of,
)

if TYPE_CHECKING:
    from tests.bus.conftest import Server
    from tests.conftest import World


Act = Callable[..., ActionTaken]
CONSUMERS = ("reward", "needs", "curiosity", "progress", "witness", "store", "watch")
READS: dict[str, tuple[type[Event], ...]] = {
    "reward": (ActionTaken,),
    "needs": (ActionTaken, RewardAssigned, AgentWoke),
    "curiosity": (ActionTaken, GoalSet, MessageReceived),
    "progress": (TaskProgressed, ActionTaken, WeightsSet),
    "witness": (
        *(ActionTaken, RewardAssigned, NeedsChanged, NoveltyMeasured, ExperienceRecorded, AlarmRaised, PolicySet),
        *(MessageReceived, MessageSent, AnswerRated, GoalSet, GoalReached, GoalDropped, AgentPaused, AgentResumed),
        *(ActApproved, ActDenied, ReviewDecided, GoalAccepted, PersonForgotten),
        *(WeightsSet, CycleReflected, ForkScored, *OF_TRAINING),
    ),
    "store": FACTS,
    "watch": (ExperienceRecorded,),
}
OF_ACTS = [name for name, kinds in READS.items() if ActionTaken in kinds]


@asynccontextmanager
async def hosted(bus: Bus, home: Path) -> AsyncIterator[list[HostedConsumer]]:
    """All consumers that come with Conch, at work; on leaving they have handled everything."""
    context, stop, broke = ServiceContext(Settings(), home), asyncio.Event(), []
    async with shared_subscription(bus) as shared_events, joined(bus, CONSUMERS) as members:
        running = builtin(context, CONSUMERS, members)
        hosting = asyncio.create_task(host(shared_events, running, stop, broke.append))
        try:
            yield running
            async with asyncio.timeout(30):
                await quiet(bus, running)
            assert broke == []
        finally:
            stop.set()
            await hosting


async def publish(bus: Bus, *events: Event) -> None:
    """Put them on the stream."""
    for event in events:
        await bus.publish(subject_of(event), encode(event), id=event.id)


async def weights(bus: Bus, act: ActionTaken) -> None:
    """What an act of this agent is worth."""
    parts = weight_set((), Settings().rewards)
    said = {"id": f"weights-{act.agent}", "source": act.source, "agent": act.agent}
    await publish(bus, WeightsSet(**said, version=weights_version(parts), parts=parts))


async def recorded(bus: Bus) -> list[tuple[str, int]]:
    """(agent, cycle) of every experience, each of them complete."""
    found = []
    async for delivery in bus.read([subject_filter(ExperienceRecorded)]):
        with suppress(ContractViolationError):
            event = decode(delivery.data)
            if isinstance(event, ExperienceRecorded) and event.complete:
                found.append((event.agent, event.cycle or 0))
    return found


async def letters(bus: Bus) -> Counter[str]:
    """How many dead letters each consumer has written."""
    return Counter([letter.consumer async for letter in open_dead_letters(bus)])


GARBAGE = {
    "nothing": b"",
    "bytes": b"\xff\xfe\x00\x01\x80",
    "half": b'{"type":"conch.v1.action.taken","id":',
    "a list": b"[1,2,3]",
    "null": b"null",
    "depths": b"[" * 100_000,
    "a number beyond all": b'{"id":"x","cycle":1' + b"0" * 5000 + b"}",
    "not a number": b'{"id":"x","cycle":NaN}',
    "half a character": b'{"id":"\xed\xa0\x80"}',
    "another kind": b'{"id":"x","type":"conch.v1.no.such","source":"s","agent":"echo","data":{}}',
    "terminal": b'{"id":"\\u001b[2J\\u202e","type":"conch.v1.action.taken","agent":"../../x"}',
}


async def test_garbage_on_every_subject_is_a_letter_of_each_who_reads_it(bus: Bus, act: Act, tmp_path: Path) -> None:
    """Of every sort, on every subject of the table: the acts around it are scored and recorded as ever."""
    await weights(bus, act())
    async with hosted(bus, tmp_path):
        await publish(bus, act(1))
        for kind in EVENTS:
            for name, data in GARBAGE.items():
                await bus.publish(f"conch.v1.echo.{kind.TYPE}", data, id=f"{kind.TYPE}/{name}")
        await publish(bus, act(2))

    assert await recorded(bus) == [("echo", 1), ("echo", 2)]
    wanted = {name: len(GARBAGE) * len(kinds) for name, kinds in READS.items()}
    assert dict(await letters(bus)) == wanted


async def test_an_event_beyond_all_bounds_is_not_taken(bus: Bus) -> None:
    """Ten megabytes are refused in one sentence before anything is sent; the bus goes on."""
    with pytest.raises(BusError, match=r"has 10485760 bytes, the bus takes \d+"):
        await bus.publish("conch.v1.echo.action.taken", b"x" * 10 * 2**20, id="large")

    assert (await bus.state()).messages == 0
    await bus.publish("conch.v1.echo.action.taken", b"x", id="small")


async def test_a_server_that_takes_less_names_one_number(server: Server) -> None:
    """The most that it takes, which a message of that many bytes keeps; and what has to be changed there."""
    url = server.start("max_payload: 65536\njetstream {}")
    async with JetStreamBus(Access(url)) as bus:
        with pytest.raises(BusError, match=r"has 65000 bytes, this server takes (\d+): its max_payload") as raised:
            await bus.publish("conch.v1.echo.action.taken", b"x" * 65000, id="large")
        most = int(str(raised.value).partition("takes ")[2].partition(":")[0])

        await bus.publish("conch.v1.echo.action.taken", b"x" * most, id="fits")

        assert (await bus.state()).messages == 1


def test_every_server_that_the_project_configures_takes_the_same() -> None:
    """The embedded one, compose and Kubernetes: what one takes, the other does."""
    root = Path(__file__).parents[2]
    named = [
        re.findall(r"max_payload: *(\S+)", (root / file).read_text())
        for file in ("ops/compose/nats.conf", "ops/k8s/settings.yaml")
    ]

    assert named == [["1MB"], ["1MB"]]
    assert MAX_PAYLOAD == 2**20  # what nats-server reads in 1MB


async def test_a_large_event_of_another_client_is_a_letter(world: World, act: Act, tmp_path: Path) -> None:
    """Larger than an event may be, though the server took it: nobody handles half of it."""
    good = act(1)
    large = good.model_dump_json().replace("DO_NOTHING: resting", "x" * 900_000).encode()
    assert len(large) > MAX_EVENT_BYTES
    async with world.bus() as bus:
        await weights(bus, good)
        async with hosted(bus, tmp_path):
            if world.server is None:
                await bus.publish(subject_of(good), large, id="large")
            else:
                async with Connection(world.server.access) as client:
                    await client.ask(subject_of(good), large)
            await publish(bus, good)

        assert await recorded(bus) == [("echo", 1)]
        assert dict(await letters(bus)) == dict.fromkeys(OF_ACTS, 1)
        assert all([str(len(large)) in letter.reason and not letter.letter async for letter in open_dead_letters(bus)])


async def test_an_act_that_just_fits_is_recorded(bus: Bus, act: Act, tmp_path: Path) -> None:
    """With what it says cut short, where its scores need the room."""
    large = act(1, raw="x" * (MAX_EVENT_BYTES - 1500))
    await weights(bus, large)

    async with hosted(bus, tmp_path):
        await publish(bus, large, act(2))

    assert await recorded(bus) == [("echo", 1), ("echo", 2)]
    assert not await letters(bus)


def _wire(event: Event, **changes: Any) -> bytes:
    """The event as it travels, parts of its envelope replaced."""
    return json.dumps(json.loads(encode(event)) | changes).encode()


async def test_an_event_of_the_future_is_a_letter_and_a_field_of_the_future_is_passed_over(
    bus: Bus, act: Act, tmp_path: Path
) -> None:
    """What is of another version nobody guesses at; a contract that has grown is read as far as it is known."""
    grown = json.loads(encode(act(2)))
    grown["data"]["action"]["mood"] = "bright"
    grown |= {"extension": "x", "data": grown["data"] | {"weather": {"rain": True}}}
    await weights(bus, act())

    async with hosted(bus, tmp_path):
        await bus.publish(subject_of(act()), _wire(act(1), type="conch.v2.action.taken"), id="v2")
        await bus.publish(subject_of(act()), json.dumps(grown).encode(), id="grown")

    assert await recorded(bus) == [("echo", 2)]
    assert dict(await letters(bus)) == dict.fromkeys(OF_ACTS, 1)


async def test_an_agent_never_met_is_an_agent_and_one_on_anothers_subject_is_none(
    bus: Bus, act: Act, tmp_path: Path
) -> None:
    """A name is anybody's to choose, and not to borrow; nor does a name that cannot be stop anybody."""
    stranger = act(7, agent="never-met")
    await weights(bus, act())
    await weights(bus, stranger)

    async with hosted(bus, tmp_path):
        await publish(bus, stranger)
        await bus.publish(subject_of(act()), encode(act(1, agent="delta")), id="borrowed")
        await bus.publish("conch.v1.ECHO?.action.taken", encode(act(1)), id="impossible")
        await publish(bus, act(1))

    assert sorted(await recorded(bus)) == [("echo", 1), ("never-met", 7)]
    assert dict(await letters(bus)) == dict.fromkeys(OF_ACTS, 2)
    assert {letter.agent async for letter in open_dead_letters(bus)} == {"echo", "unknown"}


def _forged(act: ActionTaken) -> dict[str, ActionTaken]:
    """Acts that do not bear the ids that follow from what they say."""
    uid = "11111111-2222-4333-8444-555555555555"
    another = action_id(uid, 2)
    return {
        "id": act.model_copy(update={"id": "11111111-2222-5333-8444-555555555555"}),
        "no uuid": act.model_copy(update={"id": "act", "action_id": "action"}),
        "another cycle's action": act.model_copy(update={"cycle": 3}),
        "another step's": act.model_copy(update={"step": 1}),
        "no action": act.model_copy(update={"action_id": None}),
        "no cycle": act.model_copy(update={"cycle": None}),
        "another agent's": act.model_copy(update={"action_id": another, "id": cycle_event_id(another, ActionTaken)}),
        "another agent's name": act.model_copy(update={"source": act.source.replace("echo", "delta")}),
        "no agent's": act.model_copy(update={"source": "somewhere"}),
    }


async def test_a_forged_id_is_a_letter(bus: Bus, act: Act, tmp_path: Path) -> None:
    """Whoever makes up an act gives it no place among the agent's: the next one is scored and recorded as ever."""
    forged = _forged(act(2))
    await weights(bus, act())

    async with hosted(bus, tmp_path):
        await publish(bus, act(1))
        for name, event in forged.items():
            await bus.publish(subject_of(event), encode(event), id=name)
        await publish(bus, act(2))

    assert await recorded(bus) == [("echo", 1), ("echo", 2)]
    assert dict(await letters(bus)) == dict.fromkeys(OF_ACTS, len(forged))
    assert all(["forged or foreign id" in letter.reason async for letter in open_dead_letters(bus)])


async def test_an_act_from_far_beyond_is_a_letter_of_all_who_keep_the_order(bus: Bus, act: Act, tmp_path: Path) -> None:
    """Well derived though its ids are, no act to come is passed over for it, and the agent does not go on behind it."""
    await weights(bus, act())

    async with hosted(bus, tmp_path):
        await publish(bus, act(1), act(2 + MOST_LEAP), act(2**70), act(2))

    assert await recorded(bus) == [("echo", 1), ("echo", 2)]
    assert dict(await letters(bus)) == {
        "reward": 1,
        "needs": 2,
        "curiosity": 2,
        "progress": 2,
        "witness": 2,
        "store": 2,
    }
    with SqliteReader(tmp_path / "store.db") as store:
        assert store.cycles.last_cycle("echo") == 2
