"""A server that tells users apart: each consumer does its work as its own user, and nothing else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from conch.bus import Bus, shared_subscription
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.jetstream.connection import Connection, ServerRefusalError
from conch.cli.permissions import configuration, said_by
from conch.config import Settings
from conch.consumer.emitted import emitted
from conch.consumer.group.membership import joined
from conch.consumer.host import HostedConsumer, host
from conch.consumer.operations.permissions import OF_AGENTS, PublishedKinds, users
from conch.consumer.plugins.discover import discover
from conch.consumer.process import builtin, plugin
from conch.consumer.services import ServiceContext
from conch.consumer.spec import ConsumerSpec
from conch.errors import BusError, BusUnreachableError
from conch_schemas import EVENTS, ActionTaken, NeedsChanged, RewardAssigned, encode, subject_of

if TYPE_CHECKING:
    from tests.bus.conftest import Key, Server
    from tests.conftest import Until


SAID = {
    "reward": PublishedKinds(("reward.assigned",)),
    "needs": PublishedKinds(("needs.changed",)),
    "curiosity": PublishedKinds(("novelty.measured",)),
    "progress": PublishedKinds(("reward.assigned",)),
    "witness": PublishedKinds(("mark.witnessed",)),
    "store": PublishedKinds(("experience.recorded",)),
    "watch": PublishedKinds(("alarm.raised",)),
    "metrics": PublishedKinds(),
}
PLUGINS = {"rule-brevity": PublishedKinds(("reward.assigned",)), "joy": PublishedKinds(("reward.assigned",))}
SOON = 20.0
PLUGIN = """
from conch import consumer, follow, rule
from conch_schemas import ActionTaken, RewardAssigned, Score


@rule(weight=0.1)
def brevity(action: ActionTaken) -> float:
    return 0.5


@consumer(ActionTaken)
def joy(action: ActionTaken) -> RewardAssigned | None:
    score = Score(component="joy", value=1.0, range=(0, 1), status="scored", scorer="joy", version="1")
    return follow(action, RewardAssigned, consumer="joy", version="1", scorer="joy", scores=(score,))
"""


@dataclass
class Shared:
    """A server with users, and their keys."""

    url: str
    files: dict[str, Path]

    def bus(self, user: str) -> JetStreamBus:
        """As this user; to be entered."""
        return JetStreamBus(self.access(user))

    def access(self, user: str) -> Access:
        """As this user."""
        return Access(self.url, nkey=str(self.files[user]))


def shared(serve: Callable[[str], str], directory: Path, new_key: Callable[..., Any], agents: Sequence[str]) -> Shared:
    """A server that is configured as `conch bus permissions` says."""
    known = users(SAID | PLUGINS, tuple(SAID), agents)
    keys = {user.name: new_key() for user in known}
    for name, key in keys.items():
        (directory / f"{name}.nk").write_text(key.seed)
    text = configuration(known, {name: key.public for name, key in keys.items()}, directory)
    return Shared(serve(f"jetstream {{}}\n{text}"), {name: directory / f"{name}.nk" for name in keys})


@pytest.fixture(scope="module")
def everybody(serve: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory, new_key: type[Key]) -> Shared:
    """For facts of any agent."""
    return shared(serve, tmp_path_factory.mktemp("keys"), new_key, ())


@pytest.fixture
async def owner(everybody: Shared) -> AsyncIterator[Bus]:
    """The user of the agents, who makes stream and bucket."""
    async with everybody.bus("agent") as bus:
        yield bus


@asynccontextmanager
async def working(where: Shared, user: str, context: ServiceContext, rules: Sequence[str] = ()) -> AsyncIterator[None]:
    """One consumer, as `conch consume` runs it, as its own user."""
    stop = asyncio.Event()
    async with (
        where.bus(user) as bus,
        shared_subscription(bus) as shared_events,
        joined(bus, [user], f"{user}-worker") as members,
        AsyncExitStack() as stack,
    ):
        plugins = {one.consumer: one for one in discover(rules).plugins}
        running: list[HostedConsumer] = (
            builtin(context, [user], members) if user in SAID else [plugin(plugins[user], context, members, stack)]
        )
        hosting = asyncio.create_task(host(shared_events, running, stop, lambda _: None))
        yield
        stop.set()
        await asyncio.wait_for(hosting, SOON)


async def test_every_consumer_does_its_work_as_its_own_user(
    everybody: Shared, owner: Bus, tmp_path: Path, act: Callable[..., ActionTaken], until: Until
) -> None:
    """And the server has nothing to complain of: each may do all that it needs."""
    (tmp_path / "plugin.py").write_text(PLUGIN)
    context = ServiceContext(Settings.model_validate({"metrics": {"port": 0}}), tmp_path)
    with structlog.testing.capture_logs() as said:
        async with AsyncExitStack() as stack:
            for name in (*SAID, *PLUGINS):
                await stack.enter_async_context(working(everybody, name, context, [str(tmp_path / "plugin.py")]))
            for cycle in range(3):
                fact = act(cycle)
                await owner.publish(subject_of(fact), encode(fact), id=fact.id)

            await until(lambda: _all_have_spoken(owner), 30)

    assert not [line for line in said if line["event"] in ("bus.denied", "consumer.broke", "consumer.down")]


async def _all_have_spoken(bus: Bus) -> bool:
    kinds = [delivery.subject.rpartition("echo.")[2] async for delivery in bus.read(["conch.v1.>"])]
    return all(
        [
            kinds.count("reward.assigned") == 9,  # its own, the rule's and joy's
            kinds.count("needs.changed") == 3,
            kinds.count("novelty.measured") == 3,
            kinds.count("mark.witnessed") >= 3,  # the acts': their scores are sealed with the experience
            {"position/reward", "position/joy", "state/needs/echo"} <= set(await bus.keys()),
        ]
    )


@pytest.mark.parametrize("subject", ["action.taken", "mark.witnessed", "needs.changed", "weights.set"])
async def test_a_consumer_cannot_say_what_is_not_its_own(subject: str, everybody: Shared, owner: Bus) -> None:
    """The refusal is an error, at once, and not a publish that is tried for ever; one event of many is enough."""
    before = (await owner.state()).last
    async with everybody.bus("reward") as rogue:
        with structlog.testing.capture_logs() as said, pytest.raises(BusError, match=f"may not publish on .*{subject}"):
            await asyncio.wait_for(rogue.publish(f"conch.v1.echo.{subject}", b"{}", id=os.urandom(4).hex()), SOON)

        await rogue.publish("conch.v1.echo.reward.assigned", b"{}", id=os.urandom(4).hex())

    assert [line["log_level"] for line in said if line["event"] == "bus.denied"] == ["error"]
    assert (await owner.state()).last == before + 1


@pytest.mark.parametrize("key", ["position/witness", "position/witness/3", "state/needs/echo", "home", "agent/echo"])
async def test_a_consumer_cannot_write_what_another_keeps(key: str, everybody: Shared, owner: Bus) -> None:
    """Nor a state that it would go on with; its own it may."""
    before = await owner.get(key)
    async with everybody.bus("reward") as rogue:
        revision = before.revision if before is not None else 0
        with pytest.raises(BusError, match="may not publish on"):
            await asyncio.wait_for(rogue.put(key, b"mine now", revision=revision), SOON)

        own = await rogue.get("position/reward/99")
        await rogue.put("position/reward/99", b"", revision=own.revision if own is not None else 0)

    assert await owner.get(key) == before


@pytest.mark.parametrize(
    "call", ["STREAM.DELETE.CONCH", "STREAM.PURGE.CONCH", "STREAM.UPDATE.CONCH", "STREAM.MSG.DELETE.CONCH"]
)
async def test_a_consumer_cannot_change_the_stream(call: str, everybody: Shared, owner: Bus) -> None:
    """What was said stays said."""
    assert (await owner.state()).epoch
    async with Connection(everybody.access("reward")) as rogue:
        with pytest.raises(ServerRefusalError, match="may not publish"):
            await asyncio.wait_for(rogue.api(call, {"name": "CONCH", "seq": 1}), SOON)


async def test_a_consumer_cannot_command_an_agent_nor_answer_for_it(everybody: Shared, owner: Bus) -> None:
    """Its requests are refused; what others ask of the agent it does not hear; nor what they are answered."""
    heard: list[bytes] = []

    async def answer(subject: str, _data: bytes) -> bytes:
        heard.append(subject.encode())
        return b"the agent's"

    async with everybody.bus("reward") as rogue, everybody.bus("cli") as person:
        for subject in ("conch.ctl.echo.*", "_INBOX.>", "conch.ctl._consumer.needs.>"):
            await rogue._connection.subscribe(subject, lambda *message: heard.append(b"rogue"))
        await rogue._connection.client.flush()
        async with owner.serve("conch.ctl.echo.*", answer):
            with pytest.raises(BusError, match=r"may not publish on conch\.ctl\.echo\.stop"):
                await asyncio.wait_for(rogue.request("conch.ctl.echo.stop", b"", timeout=30), SOON)

            assert await person.request("conch.ctl.echo.status", b"", timeout=SOON) == b"the agent's"

    assert heard == [b"conch.ctl.echo.status"]


async def test_what_a_consumer_has_delivered_elsewhere_commands_nobody(
    everybody: Shared, owner: Bus, until: Until
) -> None:
    """A server does not ask who may publish where it delivers: what comes from the stream is no request."""
    heard: list[bytes] = []

    async def answer(_subject: str, data: bytes) -> bytes:
        heard.append(data)
        return b""

    assert isinstance(owner, JetStreamBus)
    config = {"deliver_subject": "conch.ctl.echo.stop", "deliver_policy": "last", "ack_policy": "none"}
    async with (
        everybody.bus("reward") as rogue,
        everybody.bus("cli") as person,
        owner.serve("conch.ctl.echo.stop", answer),
    ):
        await rogue.publish("conch.v1.echo.reward.assigned", b"the rogue's", id=os.urandom(4).hex())
        made = await rogue._connection.api("CONSUMER.CREATE.CONCH", {"stream_name": "CONCH", "config": config})
        await until(lambda: _delivered(person, made["name"]))

        await person.request("conch.ctl.echo.stop", b"a person's", timeout=SOON)

    assert heard == [b"a person's"]


async def _delivered(bus: JetStreamBus, consumer: str) -> bool:
    infos = (await bus._connection.api("CONSUMER.LIST.CONCH"))["consumers"]
    return any(info["name"] == consumer and info["delivered"]["consumer_seq"] for info in infos)


async def test_a_consumer_that_comes_before_the_stream_is_told(
    server: Server, tmp_path: Path, new_key: type[Key]
) -> None:
    """It may not make what decides how facts are kept."""
    where = shared(server.start, tmp_path, new_key, ())

    with pytest.raises(BusError, match=r"is not there and could not be made: .*; start conch run first"):
        async with where.bus("reward"):
            pytest.fail("it made one")


async def test_with_names_of_agents_facts_may_be_of_these_alone(
    server: Server, tmp_path: Path, new_key: type[Key]
) -> None:
    """For a server that more agents share than one home has."""
    where = shared(server.start, tmp_path, new_key, ("echo", "other"))

    async with where.bus("agent") as agent, where.bus("reward") as bus:
        for name in ("echo", "other"):
            await agent.publish(f"conch.v1.{name}.action.taken", b"{}", id=f"act/{name}")
            await bus.publish(f"conch.v1.{name}.reward.assigned", b"{}", id=f"score/{name}")
        with pytest.raises(BusError, match="may not publish"):
            await bus.publish("conch.v1.third.reward.assigned", b"{}", id="score/third")


async def test_a_user_that_may_not_hear_answers_is_told(server: Server) -> None:
    """Every answer comes to an inbox: without it nothing would ever be acknowledged."""
    url = server.start(
        'authorization { users: [ { user: me, password: p, permissions: { subscribe: "x.>" } } ] }\njetstream {}'
    )

    with pytest.raises(BusUnreachableError, match=r"may not listen there to the answers on _INBOX\.me\.\S+: allow it"):
        async with JetStreamBus(Access(url, user="me", password="p")):
            pytest.fail("it went in")


def test_who_claims_the_stream_and_who_speaks_for_people() -> None:
    """The store says whose it is; from the dashboard an agent is told what it is from the command line; nobody else."""
    said = {name: PublishedKinds() for name in (*SAID, "dashboard")}

    may = {user.name: set(user.publish) for user in users(said, list(said)) if user.name not in ("run", "agent")}

    assert {name for name, subjects in may.items() if "$KV.conch.home" in subjects} == {"store"}
    assert {name for name, subjects in may.items() if "conch.ctl.>" in subjects} == {"cli", "dashboard"}
    assert may["cli"] <= may["dashboard"]


def test_every_fact_has_somebody_who_may_say_it() -> None:
    """Of the agents, a built-in consumer, or a person: a new fact has to be given to somebody."""
    said = said_by([*SAID, "mqtt", "devices", "forks", "trainer"], Settings())

    assert {kind.TYPE for kind in EVENTS} == {kind.TYPE for kind in OF_AGENTS} | {"consumer.failed"} | {
        type for one in said.values() for type in one.emits
    }
    assert {name: said[name] for name in SAID} == SAID


def test_what_a_function_returns_is_what_it_may_say() -> None:
    """By its annotation; without one, or with one that tells nothing, it does not say."""

    def one(_: ActionTaken) -> RewardAssigned | None: ...

    def fold(_: int, __: ActionTaken) -> tuple[int, Sequence[NeedsChanged | RewardAssigned]]: ...  # type: ignore[empty-body]

    def nothing(_):  # type: ignore[no-untyped-def]
        ...

    def broken(_: ActionTaken) -> Nonsense: ...  # type: ignore[name-defined]  # noqa: F821

    found = [emitted(ConsumerSpec("x", "1", (ActionTaken,), handle)) for handle in (one, fold, nothing, broken)]

    assert found == [(RewardAssigned,), (NeedsChanged, RewardAssigned), (), ()]
