"""What programs do to an agent that they should not: nothing is lost, nothing is doubled, and one sentence says why."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import conch
from conch.bus import Bus
from conch.bus.server import EmbeddedServer
from conch.errors import ContractError, FencedError
from conch_schemas import STREAM_SUBJECTS, ActionDecided, ActionTaken, CycleReflected, Event, ThoughtFormed, decode
from tests.conftest import TOKEN


async def stored(bus: Bus) -> list[Event]:
    """All events of cycles; each is there once."""
    found = [decode(delivery.data) async for delivery in bus.read(STREAM_SUBJECTS)]
    assert set(Counter(event.id for event in found).values()) <= {1}
    return [event for event in found if event.cycle is not None]


async def whole(agent: conch.ProgramAgent) -> int:
    """One cycle more, whole: its number."""
    async with agent.cycle() as cycle:
        await cycle.thought("I should look.")
        await cycle.decided(tool="look")
        await cycle.taken(output="seen")
        return cycle.number


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)
DEEP: dict[str, object] = {}
for _ in range(5000):
    DEEP = {"a": DEEP}


class Wordless:
    """Has no text."""

    def __str__(self) -> str:
        raise KeyError("no words")


HARD: dict[str, dict[str, Any]] = {
    "10 MB of each": {
        "thought": "x" * 10_000_000,
        "args": {"text": "y" * 10_000_000},
        "raw": "r" * 10_000_000,
        "messages": [{"role": "user", "content": "m" * 10_000_000}],
        "output": "o" * 10_000_000,
        "error": "e" * 10_000_000,
    },
    "NULs": {
        "thought": "\0" * 200_000,
        "args": {"\0": "\0" * 200_000},
        "raw": "\0" * 200_000,
        "output": "\0" * 200_000,
        "error": "\0" * 200_000,
    },
    "lone surrogates": {
        "thought": "\ud800",
        "args": {"\udfff": ["\ud800"]},
        "raw": "\ud800",
        "output": "\ud800",
        "error": "\ud800",
    },
    "an output and an error without text": {"output": Wordless(), "error": Wordless()},
    "a circular output": {"output": CIRCLE},
    "a deep output": {"output": DEEP},
    "100,000 messages": {"messages": [{"role": "user", "content": "m" * 100}] * 100_000},
}


@pytest.mark.parametrize("case", HARD)
async def test_what_is_hard_to_write_down_is_recorded(case: str) -> None:
    """As much of it as an event holds: the act was done."""
    given = {"thought": "", "args": {}, "raw": None, "messages": (), "output": "", "error": None} | HARD[case]
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus, system_prompt="\ud800") as agent:
        async with agent.cycle() as cycle:
            await cycle.thought(given["thought"])
            await cycle.decided(tool="look", args=given["args"], raw=given["raw"], messages=given["messages"])
            await cycle.taken("error", output=given["output"], error=given["error"])
        assert await whole(agent) == 1

        kinds = [type(event) for event in await stored(bus)]
        assert kinds == [ThoughtFormed, ActionDecided, ActionTaken, CycleReflected] * 2


async def test_of_many_messages_the_middle_is_left_out() -> None:
    """The first and the last are there, and a message says how many are not."""
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus) as agent, agent.cycle() as cycle:
        await cycle.thought("")
        asked = [{"role": "user", "content": str(number)} for number in range(1000)]
        await cycle.decided(tool="look", messages=asked)

        [decision] = [event for event in await stored(bus) if isinstance(event, ActionDecided)]
        said = [message.content for message in decision.messages]
        assert (len(said), said[0], said[-1]) == (256, "0", "999")
        assert said[128] == "[… 745 messages left out …]"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "bytes as a thought": ({"thought": b"x"}, "thought is a text, not \"b'x'\" (bytes)"),
    "no thought": ({"thought": None}, "thought is a text, not 'None' (NoneType)"),
    "a raw reply in bytes": ({"raw": b"x"}, "raw is a text"),
    "a message without a role": ({"messages": ["text"]}, "is no list of mappings, each with role and content"),
    "one message": ({"messages": {"role": "user"}}, "is no list of mappings"),
    "deep args": ({"args": DEEP}, "are no JSON object"),
    "args in a list": ({"args": ["a"]}, "are no JSON object"),
    "too many args": ({"args": {f"k{i}": "v" * 20 for i in range(50_000)}}, "an event holds 262,144: pass fewer"),
    "time as text": ({"ms": "soon"}, "ms='soon': a step takes 0 milliseconds or more"),
    "endless time": ({"ms": float("inf")}, "ms='inf': a step takes 0 milliseconds or more"),
    "more tokens than there are": ({"usage": {"input_tokens": 10**30}}, "that many tokens there are not"),
    "an exit status in words": ({"exit_code": "zero"}, "exit_code='zero': an exit status is a whole number"),
    "an exit status that no store takes": ({"exit_code": 10**30}, "an exit status is a whole number"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_what_cannot_be_an_event_is_one_sentence_and_the_agent_goes_on(case: str) -> None:
    """The step can be done again as it should be; the next cycle has the next number."""
    given, sentence = WRONG[case]
    asks = {name: given[name] for name in ("args", "raw", "messages", "ms", "usage") if name in given}
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus) as agent:
        async with agent.cycle() as cycle:
            with pytest.raises(ContractError) as refused:  # noqa: PT012 - one of the three refuses
                await cycle.thought(given.get("thought", ""))
                await cycle.decided(tool="look", **asks)
                await cycle.taken(exit_code=given["exit_code"])
            await cycle.thought("")
            await cycle.decided(tool="look")
            await cycle.taken()
        assert await whole(agent) == 1

        assert sentence in str(refused.value)
        assert "\n" not in str(refused.value)
        assert [event.cycle for event in await stored(bus)] == [0] * 4 + [1] * 4


async def test_two_thoughts_at_once_are_one_thought(bus: Bus) -> None:
    """Steps wait for each other: the second of two is the same again, or is refused; the agent goes on."""
    async with conch.agent("mine", bus=bus) as agent:
        async with agent.cycle() as cycle:
            done = await asyncio.gather(*map(cycle.thought, ("One.", "One.", "Two.")), return_exceptions=True)
        assert await whole(agent) == 1

    assert done[:2] == [None, None]
    assert "cycle 0 has another thought already" in str(done[2])
    assert [event.cycle for event in await stored(bus)].count(0) == 2


async def test_a_program_in_another_event_loop_is_told(tmp_path: Path) -> None:
    """The loop that it was entered in has been closed in the middle of a cycle; entered anew, it goes on, and the act
    in hand is unknown."""

    async def begin(url: str, token: str) -> conch.ProgramCycle:
        agent = await conch.agent("mine", url, token=token).__aenter__()
        cycle = await agent.cycle().__aenter__()
        await cycle.thought("I should look.")
        await cycle.decided(tool="look")
        return cycle

    async def again(url: str, token: str) -> int:
        async with conch.agent("mine", url, token=token) as agent:
            return await whole(agent)

    async with conch.local_bus(tmp_path) as bus:
        left = await asyncio.to_thread(asyncio.run, begin(bus.url, bus.token))

        with pytest.raises(ContractError, match="mine was entered in another event loop: use it there, or enter"):
            await asyncio.to_thread(asyncio.run, left.taken())
        assert await asyncio.to_thread(asyncio.run, again(bus.url, bus.token)) == 1

        acts = [event for event in await stored(bus) if isinstance(event, ActionTaken)]
        assert [(one.cycle, one.outcome.status) for one in acts] == [(0, "unknown"), (1, "success")]


async def test_an_agent_is_entered_once() -> None:
    """The second time it says what to do."""
    async with conch.MemoryBus() as bus:
        mine = conch.agent("mine", bus=bus)
        async with mine as agent:
            await whole(agent)
        with pytest.raises(ContractError, match=r"was entered before: call conch\.agent\(\.\.\.\) again"):
            await mine.__aenter__()


async def test_threads_of_a_program_share_its_agent_one_cycle_at_a_time(nats_server: EmbeddedServer) -> None:
    """Of two that begin a cycle at once one is told that a cycle is open; steps of one cycle may come from any thread.
    Left, each call is told so."""

    def program() -> tuple[list[str], list[int]]:
        refused, numbers, together = [], [], threading.Barrier(4)
        with conch.agent("mine", nats_server.url, token=TOKEN) as agent:

            def act() -> None:
                together.wait()
                for _ in range(5):
                    try:
                        with agent.cycle() as cycle:
                            cycle.thought("I should look.")
                            with ThreadPoolExecutor(1) as other:
                                other.submit(cycle.decided, tool="look").result()
                            cycle.taken(output="seen")
                            numbers.append(cycle.number)
                    except ContractError as error:
                        refused.append(str(error))

            threads = [threading.Thread(target=act) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            last = agent.cycle()
        with pytest.raises(ContractError, match="the agent was left: its calls belong inside of `with"):
            last.__enter__()
        return refused, numbers

    refused, numbers = await asyncio.to_thread(program)

    assert len(refused) + len(numbers) == 20
    assert all("of mine is open: leave it before the next begins" in sentence for sentence in refused)
    assert sorted(numbers) == list(range(len(numbers)))
    async with conch.connect(nats_server.url, token=TOKEN) as bus:
        assert [event.cycle for event in await stored(bus)] == [number for number in sorted(numbers) for _ in range(4)]


async def test_the_name_of_an_agent_that_runs_is_taken(bus: Bus) -> None:
    """Of two programs, and of a program and an agent of Conch's own, the second is refused, and the first goes on."""
    async with (
        conch.running(bus, agent="echo", mind=["DO_NOTHING: rest"] * 1000),
        conch.agent("mine", bus=bus) as agent,
    ):
        for name in ("echo", "mine"):
            with pytest.raises(FencedError, match=f"another program acts as {name} on this bus"):
                async with conch.agent(name, bus=bus):
                    pytest.fail("it was let in")
        assert await whole(agent) == 0


async def test_a_bus_that_goes_away_in_a_cycle_is_waited_for(nats_server: EmbeddedServer) -> None:
    """The server dies between thought and decision, and is started anew: the call returns when the event is stored."""
    async with (
        conch.connect(nats_server.url, token=TOKEN) as watching,
        conch.agent("mine", nats_server.url, token=TOKEN) as agent,
    ):
        async with agent.cycle() as cycle:
            await cycle.thought("I should look.")
            await nats_server.stop()
            deciding = asyncio.create_task(cycle.decided(tool="look"))
            done, _ = await asyncio.wait([deciding], timeout=2.0)
            assert not done
            await nats_server.start()
            await deciding
            await cycle.taken(output="seen")
        assert await whole(agent) == 1

        assert [event.cycle for event in await stored(watching)] == [0] * 4 + [1] * 4
