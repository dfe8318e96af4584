"""A program that acts by `conch.agent` as its own user of a server: its acts and its rewards, and nothing else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog

import conch
from conch.bus import Bus
from conch.bus.jetstream.connection import Connection, ServerRefusalError
from conch.config import Settings
from conch.consumer.services import ServiceContext
from conch.errors import BusError, FencedError
from conch.requests import ask
from conch_schemas import control_subject
from tests.bus.test_rights import SAID, SOON, Shared, shared, working

if TYPE_CHECKING:
    from tests.bus.conftest import Key


@pytest.fixture(scope="module")
def named(serve: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory, new_key: type[Key]) -> Shared:
    """A server for facts of the agents `mine` and `other`, each of which a program is."""
    return shared(serve, tmp_path_factory.mktemp("keys"), new_key, ("mine", "other"))


@pytest.fixture
async def owner(named: Shared) -> AsyncIterator[Bus]:
    """The user of the agents, which makes stream and bucket."""
    async with named.bus("agent") as bus:
        yield bus


async def test_a_program_acts_and_has_its_rewards_as_its_own_user(named: Shared, owner: Bus, tmp_path: Path) -> None:
    """A second one under its name is refused, people's requests are answered, and the server complains of nothing."""
    assert await owner.keys() == []
    context = ServiceContext(Settings.model_validate({"metrics": {"port": 0}}), tmp_path)
    with structlog.testing.capture_logs() as said:
        async with AsyncExitStack() as stack:
            for name in SAID:
                await stack.enter_async_context(working(named, name, context))
            program, person = (
                await stack.enter_async_context(named.bus("program-mine")),
                await stack.enter_async_context(named.bus("cli")),
            )
            async with conch.agent("mine", bus=program) as agent:
                async with agent.cycle() as cycle:
                    await cycle.thought("I should look.")
                    await cycle.decided(tool="search", args={"query": "weather"})
                    await cycle.taken(output="sunny")
                assert await cycle.reward(timeout=SOON) is not None
                assert (await ask(person, control_subject("mine", "status"), {}))["cycle"] == 0
                await ask(person, control_subject("mine", "pause"), {})
                await ask(person, control_subject("mine", "resume"), {})
                with pytest.raises(FencedError, match="another program acts as mine"):
                    async with conch.agent("mine", bus=program):
                        pass

    assert not [line for line in said if line["event"] in ("bus.denied", "consumer.broke", "consumer.down")]


@pytest.mark.parametrize(
    "subject", ["mine.reward.assigned", "mine.experience.recorded", "mine.goal.reached", "other.action.taken"]
)
async def test_a_program_cannot_say_what_is_not_its_own(subject: str, named: Shared, owner: Bus) -> None:
    """No score, no experience, and no act of another agent."""
    before = (await owner.state()).last
    async with named.bus("program-mine") as rogue:
        with pytest.raises(BusError, match=f"may not publish on conch.v1.{subject}"):
            await asyncio.wait_for(rogue.publish(f"conch.v1.{subject}", b"{}", id=os.urandom(4).hex()), SOON)

    assert (await owner.state()).last == before


@pytest.mark.parametrize("key", ["agent/other", "position/reward", "state/needs/mine", "home"])
async def test_a_program_cannot_write_what_others_keep(key: str, named: Shared, owner: Bus) -> None:
    """Its own memory it may."""
    assert (await owner.state()).epoch
    async with named.bus("program-mine") as rogue:
        with pytest.raises(BusError, match="may not publish on"):
            await asyncio.wait_for(rogue.put(key, b"mine now", revision=0), SOON)


@pytest.mark.parametrize("subject", ["conch.ctl.mine.stop", "conch.ctl.other.status", "conch.ctl._consumer.reward.x"])
async def test_a_program_commands_no_agent(subject: str, named: Shared, owner: Bus) -> None:
    """It may ask whether its own name is taken, and no more."""
    assert (await owner.state()).epoch
    async with named.bus("program-mine") as rogue:
        with pytest.raises(BusError, match="may not publish on"):
            await asyncio.wait_for(rogue.request(subject, b"", timeout=30), SOON)


@pytest.mark.parametrize("call", ["STREAM.DELETE.CONCH", "STREAM.PURGE.CONCH", "STREAM.MSG.DELETE.CONCH"])
async def test_a_program_cannot_change_the_stream(call: str, named: Shared, owner: Bus) -> None:
    """What was said stays said."""
    assert (await owner.state()).epoch
    async with Connection(named.access("program-mine")) as rogue:
        with pytest.raises(ServerRefusalError, match="may not publish"):
            await asyncio.wait_for(rogue.api(call, {"name": "CONCH", "seq": 1}), SOON)


async def test_without_names_a_program_may_be_any_agent(
    serve: Callable[[str], str], tmp_path: Path, new_key: type[Key]
) -> None:
    """One user, `program`, for all of them."""
    where = shared(serve, tmp_path, new_key, ())
    async with where.bus("agent"), where.bus("program") as bus:
        for name in ("first", "second"):
            async with conch.agent(name, bus=bus) as agent, agent.cycle() as cycle:
                await cycle.thought("I am.")
                await cycle.decided("DO_NOTHING", text="rest")
