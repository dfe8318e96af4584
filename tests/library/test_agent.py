"""A program's agent: its facts, its order, and what it leaves open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import conch
from conch.bus import Bus
from conch.errors import BusUnreachableError, ContractError, FencedError
from conch.home import Home
from conch.library.steps import tool_name, usage_of
from conch.requests import ask
from conch.tasks import background
from conch_schemas import (
    STREAM_SUBJECTS,
    ActionDecided,
    ActionTaken,
    CycleReflected,
    Event,
    ExperienceRecorded,
    PolicySet,
    ThoughtFormed,
    Usage,
    WeightsSet,
    action_id,
    control_subject,
    cycle_event_id,
    decode,
)
from tests.conftest import Until

Step = Callable[[conch.ProgramCycle], Awaitable[None]]


async def events(bus: Bus, *kinds: type[Event], agent: str = "mine") -> list[Event]:
    """All events of the agent on the stream, of these kinds or of all."""
    found = [decode(delivery.data) async for delivery in bus.read(STREAM_SUBJECTS)]
    return [event for event in found if event.agent == agent and (not kinds or isinstance(event, kinds))]


async def acts(bus: Bus) -> list[ActionTaken]:
    """All acts of the agent."""
    return [event for event in await events(bus) if isinstance(event, ActionTaken)]


async def act(cycle: conch.ProgramCycle, query: str = "weather") -> None:
    """One act of a tool, whole."""
    await cycle.thought("I should look.")
    await cycle.decided(tool="search", args={"query": query})
    await cycle.taken(output="sunny")


async def test_a_cycle_is_the_facts_of_an_agent_with_the_same_ids(bus: Bus) -> None:
    """thought.formed, action.decided, action.taken, cycle.reflected, each with the id of agent, cycle and type."""
    mine = conch.agent("mine", bus=bus, model="gpt-x", system_prompt="Be kind.", tools={"search": "read"})
    async with mine as agent, agent.cycle() as cycle:
        await cycle.thought("I should look.", usage=Usage(input_tokens=3, output_tokens=1))
        await cycle.decided(tool="search", args={"query": "weather"}, usage={"prompt_tokens": 5})
        await cycle.taken("success", output={"sky": "blue"}, ms=12.5, usage={"completion_tokens": 7})

    policy, *found = await events(bus, PolicySet, ThoughtFormed, ActionDecided, ActionTaken, CycleReflected)
    assert [type(event) for event in found] == [ThoughtFormed, ActionDecided, ActionTaken, CycleReflected]
    action = action_id(policy.agentuid, 0)
    assert [event.id for event in found] == [cycle_event_id(action, type(event)) for event in found]
    assert {event.policy for event in found} == {policy.policy}
    assert isinstance(policy, PolicySet)
    assert (policy.mind, policy.model, policy.system_prompt) == ("program", "gpt-x", "Be kind.")
    taken = found[2]
    assert isinstance(taken, ActionTaken)
    assert taken.raw == 'TOOL: search(query="weather")'
    assert (taken.action.skill, taken.action.declared_effect) == ("search", "read")
    assert (taken.outcome.status, taken.outcome.output.text, taken.outcome.ms) == ("success", '{"sky": "blue"}', 12.5)
    assert taken.usage == Usage(input_tokens=8, output_tokens=8)
    assert (taken.tools, taken.effect, taken.goals) == (("search",), None, ())


async def test_a_run_scores_the_acts_of_a_program_as_its_agents(bus: Bus) -> None:
    """Needs, curiosity, reward, witness and store work on them; the experience is complete, its total comes back."""
    async with conch.running(bus, mind=["DO_NOTHING: rest"]) as run, conch.agent("mine", bus=bus) as agent:
        async with agent.rewards() as rewards, agent.cycle() as cycle:
            await act(cycle)
            total = await cycle.reward()
            recorded = await anext(aiter(rewards))

        assert total is not None
        assert (recorded.agent, recorded.cycle, recorded.total, recorded.complete) == ("mine", 0, total, True)
        await run.handled()
        with conch.open(run.home) as home:
            assert {row["component"] for row in home.scores(agent="mine")} >= {"format", "execution", "needs"}
            assert sum(mark["domain"] in ("action", "score") for mark in home.marks(agent="mine")) == 2


async def test_a_reward_that_does_not_come_is_none(bus: Bus) -> None:
    """Nothing scores on this bus."""
    async with conch.agent("mine", bus=bus) as agent, agent.cycle() as cycle:
        await act(cycle)

        assert await cycle.reward(timeout=0.05) is None


async def thought(cycle: conch.ProgramCycle) -> None:
    """The first step."""
    await cycle.thought("I should look.")


async def decided(cycle: conch.ProgramCycle) -> None:
    """The second step."""
    await cycle.decided(tool="search", args={"query": "weather"})


async def taken(cycle: conch.ProgramCycle) -> None:
    """The third step."""
    await cycle.taken(output="sunny")


async def rewarded(cycle: conch.ProgramCycle) -> None:
    """The question for the reward."""
    await cycle.reward(timeout=0)


OUT_OF_ORDER: dict[str, tuple[list[Step], Step, str]] = {
    "decided before thought": ([], decided, "has no thought yet: call thought before decided"),
    "taken before thought": ([], taken, "has no decision yet: call decided before taken"),
    "taken before decided": ([thought], taken, "has no decision yet: call decided before taken"),
    "reward before thought": ([], rewarded, "has no outcome yet: call taken before reward"),
    "reward before taken": ([thought, decided], rewarded, "has no outcome yet: call taken before reward"),
    "another thought": ([thought], lambda cycle: cycle.thought("No."), "has another thought already"),
    "another decision": ([thought, decided], lambda cycle: cycle.decided(tool="look"), "has another decision already"),
    "another outcome": ([thought, decided, taken], lambda cycle: cycle.taken("error"), "has another outcome already"),
    "tool and text": ([thought], lambda cycle: cycle.decided("REFLECT", tool="look"), "a decision is either"),
    "no decision": ([thought], lambda cycle: cycle.decided(), "a decision is either"),
    "args of nothing": ([thought], lambda cycle: cycle.decided("REFLECT", args={}), "args belong to a tool"),
    "args that are no JSON": ([thought], lambda cycle: cycle.decided(tool="a", args={"x": {1}}), "no JSON object"),
    "an infinite arg": ([thought], lambda cycle: cycle.decided(tool="a", args={"x": float("inf")}), "no JSON object"),
    "a tool without a name": ([thought], lambda cycle: cycle.decided(tool="…"), "cannot be called '…'"),
    "an unknown status": (
        [thought, decided],
        lambda cycle: cycle.taken("fine"),  # type: ignore[arg-type]
        "no outcome 'fine', there are success, error, timeout",
    ),
    "none for a tool": ([thought, decided], lambda cycle: cycle.taken("none"), "its outcome is not none"),
    "negative time": ([thought, decided], lambda cycle: cycle.taken(ms=-1), "a step takes 0 milliseconds or more"),
    "tokens in words": ([thought, decided], lambda cycle: cycle.taken(usage={"input_tokens": "few"}), "no counts"),
}


@pytest.mark.parametrize("case", OUT_OF_ORDER)
async def test_a_call_out_of_order_is_one_sentence_and_publishes_nothing(case: str) -> None:
    """The cycle goes on as if it had not been made."""
    before, wrong, sentence = OUT_OF_ORDER[case]
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus) as agent, agent.cycle() as cycle:
        for step in before:
            await step(cycle)
        stored = (await bus.state()).last

        with pytest.raises(ContractError) as refused:
            await wrong(cycle)

        assert sentence in str(refused.value)
        assert (await bus.state()).last == stored
        for step in (thought, decided, taken)[len(before) :]:
            await step(cycle)


async def test_a_step_belongs_inside_of_its_cycle() -> None:
    """Before it is entered and after it was left, each step is refused; only the reward can be asked for later."""
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus) as agent:
        cycle = agent.cycle()
        with pytest.raises(ContractError, match="is not entered"):
            await cycle.thought("early")
        async with cycle:
            await act(cycle)
            with pytest.raises(ContractError, match="cycle 0 of mine is open: leave it"):
                async with agent.cycle():
                    pass

        with pytest.raises(ContractError, match="cycle 0 of mine is over: thought belongs inside of it"):
            await cycle.thought("late")
        assert await cycle.reward(timeout=0) is None


async def test_the_same_call_again_is_once() -> None:
    """A program that repeats a step with the same content, after a failure of its own, changes nothing."""
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus) as agent:
        async with agent.cycle() as cycle:
            for step in (thought, thought, decided, decided, taken, taken):
                await step(cycle)

        assert [type(event) for event in (await events(bus))[-4:]] == [
            ThoughtFormed,
            ActionDecided,
            ActionTaken,
            CycleReflected,
        ]


@pytest.mark.parametrize(
    ("what", "text", "kind", "valid", "raw"),
    [
        ("DO_NOTHING", "nothing is due", "DO_NOTHING", True, "DO_NOTHING: nothing is due"),
        ("REFLECT", "", "REFLECT", True, "REFLECT:"),
        ("REFLECT: the weather", "", "REFLECT", True, "REFLECT: the weather"),
        ("I would rather not.", "", "INVALID", False, "I would rather not."),
        ("TOOL: search(query=", "", "TOOL", False, "TOOL: search(query="),
    ],
)
async def test_what_runs_nothing_needs_no_outcome(what: str, text: str, kind: str, valid: bool, raw: str) -> None:
    """Left, the cycle has the outcome `none`, also where the program does not say so."""
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus) as agent:
        async with agent.cycle() as cycle:
            await cycle.thought("")
            await cycle.decided(what, text=text)

        [found] = await acts(bus)
        assert (found.action.kind, found.action.valid, found.raw) == (kind, valid, raw)
        assert found.outcome.status == "none"


async def test_a_reply_in_the_grammar_is_a_call_of_any_tool() -> None:
    """Tools that were not declared are accepted, and listed once they were used."""
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus, tools=["look"]) as agent:
        agent.tools({"deploy": "world"})
        async with agent.cycle() as cycle:
            await cycle.thought("")
            await cycle.decided('TOOL: web_search(query="sea", limit=3)')
            await cycle.taken("timeout", error=TimeoutError("it took too long"))

        [found] = await acts(bus)
        assert (found.action.tool, found.action.args, found.action.valid) == (
            "web_search",
            {"query": "sea", "limit": 3},
            True,
        )
        assert (found.tools, found.outcome.error) == (("look", "deploy", "web_search"), "it took too long")


async def test_what_the_model_was_asked_with_is_in_the_decision() -> None:
    """Training reads the messages and the model's own reply."""
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus) as agent:
        async with agent.cycle() as cycle:
            await cycle.thought("")
            asked: list[dict[str, object]] = [
                {"role": "user", "content": "Go on."},
                {"role": "tool", "content": None, "tool_calls": [{"id": 1}]},
            ]
            await cycle.decided(tool="search", raw="<search/>", messages=asked)

        [decision] = await events(bus, ActionDecided)
        assert isinstance(decision, ActionDecided)
        assert [(one.role, one.content) for one in decision.messages] == [("user", "Go on."), ("user", '[{"id": 1}]')]
        assert decision.raw == "<search/>"


async def test_large_arguments_and_outputs_fit_an_event() -> None:
    """Texts lose their middle; the act is recorded."""
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus) as agent:
        async with agent.cycle() as cycle:
            await cycle.thought("x" * 300_000)
            await cycle.decided(tool="write", args={"text": "x" * 500_000, "also": "y" * 500_000})
            await cycle.taken(output="z" * 2_000_000)

        [found] = await acts(bus)
        assert found.outcome.output.length == 2_000_000
        assert "characters left out" in str(found.action.args["text"])


async def test_an_error_of_the_program_makes_the_outcome_unknown() -> None:
    """Whether the tool did its work is not known; the error is the sentence, and comes out of the block."""
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus) as agent:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is what is tested
            async with agent.cycle() as cycle:
                await thought(cycle)
                await decided(cycle)
                raise ZeroDivisionError("by zero")

        [found] = await acts(bus)
        assert found.outcome.status == "unknown"
        assert found.outcome.error == "the program left the cycle with ZeroDivisionError: by zero"


async def test_a_cycle_without_a_decision_says_so() -> None:
    """It has no act and no score; the next cycle has the next number."""
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus) as agent:
        async with agent.cycle() as cycle:
            await thought(cycle)
        async with agent.cycle() as cycle:
            assert cycle.number == 1

        [ended] = await events(bus, CycleReflected)
        assert isinstance(ended, CycleReflected)
        assert ended.reflection == "the program ended the cycle without a decision"
        assert await acts(bus) == []


async def test_a_cancelled_cycle_is_closed_by_the_next_one(bus: Bus) -> None:
    """Cancelled between decision and outcome: the next cycle first records that as unknown."""
    async with conch.agent("mine", bus=bus) as agent:
        reached = asyncio.Event()

        async def cancelled() -> None:
            async with agent.cycle() as cycle:
                await thought(cycle)
                await decided(cycle)
                reached.set()
                await asyncio.Event().wait()

        async with background(cancelled(), name="program"):
            await reached.wait()
        async with agent.cycle() as cycle:
            await act(cycle)

    assert [(one.cycle, one.outcome.status) for one in await acts(bus)] == [(0, "unknown"), (1, "success")]


async def test_without_a_home_the_bus_keeps_the_agents_uuid(bus: Bus) -> None:
    """Entered again, it is the same agent, and goes on with the next cycle."""
    for _ in range(2):
        async with conch.agent("mine", bus=bus) as agent, agent.cycle() as cycle:
            await act(cycle)

    found = await acts(bus)
    assert [one.cycle for one in found] == [0, 1]
    assert len({one.agentuid for one in found}) == 1


async def test_with_a_home_its_agent_directory_keeps_the_uuid_and_the_count(tmp_path: Path) -> None:
    """A stream that was lost leaves no number for a second cycle."""
    home = Home(tmp_path)
    home.make()
    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus, home=tmp_path) as agent:
        async with agent.cycle() as cycle:
            await act(cycle)
        assert [one.agentuid for one in await acts(bus)] == [home.agentuid("mine")]

    async with (
        conch.MemoryBus() as another,
        conch.agent("mine", bus=another, home=tmp_path) as agent,
        agent.cycle() as cycle,
    ):
        assert cycle.number > 1


async def test_a_second_program_of_the_name_is_refused_and_the_first_goes_on(bus: Bus) -> None:
    """One sentence says which one acts."""
    async with conch.agent("mine", bus=bus) as agent:
        with pytest.raises(FencedError, match="another program acts as mine on this bus"):
            async with conch.agent("mine", bus=bus):
                pass
        async with agent.cycle() as cycle:
            await act(cycle)

    assert len(await acts(bus)) == 1


async def test_an_event_of_another_copy_ends_the_agent(bus: Bus, until: Until) -> None:
    """A copy that did not ask first: the next call raises, and so does leaving the agent."""
    mine = conch.agent("mine", bus=bus)
    agent = await mine.__aenter__()
    async with agent.cycle() as cycle:
        await act(cycle)
    [first] = await acts(bus)
    action = action_id(first.agentuid, 7)
    changed = {"cycle": 7, "action_id": action, "subject": action, "id": cycle_event_id(action, ActionTaken)}
    await conch.publish(bus, first.model_copy(update=changed))
    await until(lambda: agent._hosting.done())

    with pytest.raises(FencedError, match="another copy of mine runs on this bus"):
        async with agent.cycle():
            pass
    with pytest.raises(FencedError, match="another copy of mine runs on this bus"):
        await mine.__aexit__(None, None, None)


async def test_an_agent_has_the_weights_of_the_run(bus: Bus) -> None:
    """Those that were set last on the bus; where there are none the built-in ones."""
    async with conch.agent("first", bus=bus):
        pass
    async with conch.running(bus, mind=["DO_NOTHING: rest"], rules=[]) as run:
        await run.finished()
        async with conch.agent("mine", bus=bus):
            pass

    [built_in] = await events(bus, WeightsSet, agent="first")
    [own] = await events(bus, WeightsSet, agent="echo")
    [mine] = await events(bus, WeightsSet)
    assert isinstance(built_in, WeightsSet)
    assert isinstance(own, WeightsSet)
    assert isinstance(mine, WeightsSet)
    assert mine.parts == own.parts == built_in.parts
    assert mine.why == "as for echo"


async def test_a_paused_program_waits_before_its_next_cycle(bus: Bus) -> None:
    """`conch pause` and `resume` reach it as an agent of a run; `stop` lets it begin no further cycle."""
    async with conch.agent("mine", bus=bus) as agent:
        await ask(bus, control_subject("mine", "pause"), {})
        waiting = agent.cycle()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), waiting:
                pass
        await ask(bus, control_subject("mine", "resume"), {})
        async with agent.cycle() as cycle:
            assert (await ask(bus, control_subject("mine", "status"), {}))["state"] == "running"
            await ask(bus, control_subject("mine", "stop"), {})
            await act(cycle)

        with pytest.raises(conch.ConchError, match="mine was told to stop"):
            async with agent.cycle():
                pass
    assert len(await acts(bus)) == 1


async def test_a_home_without_a_run_is_one_sentence(tmp_path: Path) -> None:
    """As for every program that connects to it."""
    with pytest.raises(BusUnreachableError, match="no run is in progress"):
        async with conch.agent("mine", home=tmp_path):
            pass


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"name": "Mine!"}, "an agent cannot be called 'Mine!'"),
        ({"name": "mine", "tools": "search"}, "tools is a text"),
        ({"name": "mine", "tools": {"search": "much"}}, "declares the effect 'much'"),
    ],
)
def test_names_that_cannot_be_are_refused_at_once(arguments: dict[str, object], sentence: str) -> None:
    """Before anything is connected."""
    with pytest.raises(ContractError, match=sentence):
        conch.agent(**arguments)  # type: ignore[arg-type]


def test_tokens_are_taken_by_the_names_of_the_endpoints() -> None:
    """OpenAI's and Anthropic's, as mapping or as object."""
    assert usage_of({"prompt_tokens": 2, "completion_tokens": 3}) == Usage(input_tokens=2, output_tokens=3)
    assert usage_of(SimpleNamespace(input_tokens=2, output_tokens=3)) == Usage(input_tokens=2, output_tokens=3)
    assert usage_of(None) == Usage()


def test_a_tools_name_is_one_of_a_reply() -> None:
    """Lower case, with underscores, at most 64 characters."""
    assert tool_name("mcp:Web-Search") == "mcp_web_search"
    assert len(tool_name("x" * 200)) == 64


async def test_a_program_without_asyncio_does_the_same(tmp_path: Path) -> None:
    """Steps, order, errors and the reward, each from a thread that blocks."""

    def program(url: str, token: str) -> list[ExperienceRecorded]:
        with conch.agent("mine", url, token=token) as agent:
            agent.tools(["search"])
            with pytest.raises(ZeroDivisionError), agent.cycle() as cycle:  # noqa: PT012 - the block is what is tested
                cycle.thought("I should look.")
                cycle.decided(tool="search", args={"query": "weather"})
                raise ZeroDivisionError
            with agent.cycle() as cycle:
                with pytest.raises(ContractError, match="no decision yet"):
                    cycle.taken()
                cycle.thought("Again.")
                cycle.decided("DO_NOTHING", text="nothing is due")
                cycle.taken()
                assert cycle.reward(timeout=30) is not None
            rewards = agent.rewards()
            return [next(rewards), next(rewards)]

    async with conch.local_bus(tmp_path) as bus, conch.running(bus, mind=["DO_NOTHING: rest"]):
        recorded = await asyncio.to_thread(program, bus.url, bus.token)

        assert [(one.cycle, one.outcome.status) for one in recorded] == [(0, "unknown"), (1, "none")]


async def test_a_bus_of_a_loop_is_none_for_a_program_without_asyncio() -> None:
    """It would be used from another thread than its own."""
    async with conch.MemoryBus() as bus:
        with pytest.raises(ContractError, match=r"bus=\.\.\. belongs to an event loop"), conch.agent("mine", bus=bus):
            pass


def test_a_program_without_asyncio_is_told_why_it_cannot_begin(tmp_path: Path) -> None:
    """The error of entering comes out of `with`."""
    with pytest.raises(BusUnreachableError, match="no run is in progress"), conch.agent("mine", home=tmp_path):
        pass
