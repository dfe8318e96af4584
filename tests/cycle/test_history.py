"""What a prompt tells of the agent's own acts: the calls as they were made, what came of them, and their rewards."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.actions import parse
from conch.bus import MemoryBus
from conch.cycle.prompts.build import PromptLimits, deciding
from conch.cycle.prompts.history import call_text
from conch.cycle.state.acts import MOST_ACTS
from conch.cycle.state.memory import AgentMemory, remember
from conch.cycle.state.rewards import LESSONS, REWARDED, shortened, with_lesson, with_short_arguments
from conch.minds import ActReward, Lesson, RecentOutcome, RewardLine, Situation
from conch.tools import BUILTIN_TOOLS, Toolbox
from conch_schemas import (
    Action,
    Cut,
    ExperienceRecorded,
    Line,
    Outcome,
    ScoredPart,
    action_id,
    encode,
    source_of,
    subject_of,
)
from tests.cycle.test_memory import cycle as facts
from tests.cycle.test_memory import fold

if TYPE_CHECKING:
    from tests.cycle.conftest import Life, Start

UID = "6b0c29a5-9d4e-4a86-8a8c-3c8f6f2f9b11"
REGISTRY = Toolbox(BUILTIN_TOOLS).registry
READ = Action(kind="TOOL", valid=True, tool="filesystem", args={"operation": "read", "path": "a.md"})


def part(component: str, value: float, why: str, **more: Any) -> ScoredPart:
    plain = {"status": "scored", "scorer": "reward", "version": "1", "weight": 0.5}
    return ScoredPart(component=component, value=value, explanation=why, **{**plain, **more})


def experience(cycle: int, total: float, *, action: Action = READ, **parts: Any) -> ExperienceRecorded:
    plain: dict[str, Any] = {
        "id": f"{cycle}/{parts.get('revision', 1)}",
        "source": source_of("echo", UID),
        "agent": "echo",
        "cycle": cycle,
        "action_id": action_id(UID, cycle),
        "seq": 1,
        "acted_at": datetime.now(UTC),
        "raw": "",
        "action": action,
        "outcome": Outcome(status="success", output=Cut(text="fine", length=4, sha256="")),
        "scores": (part("success", total, "the tool succeeded"),),
        "total": total,
        "breakdown": (Line(step="part:success", amount=total, why="0.5 × 2"),),
        "coverage": 1.0,
        "complete": True,
        "revision": 1,
        "weights": "w",
        "model": "m",
        "ms": {},
    }
    return ExperienceRecorded(**{**plain, **parts})


def told(*recent: RecentOutcome, lessons: tuple[Lesson, ...] = (), budget: int = 8000) -> str:
    asked = Situation("echo", 9, {"curiosity": 0.5}, {"curiosity": 0.2}, "curiosity", recent=recent, lessons=lessons)
    return deciding("system", asked, PromptLimits(10, budget)).messages[0].content


values = st.recursive(
    st.one_of(st.text(max_size=2500), st.integers(-(2**53) + 1, 2**53 - 1), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=30), st.dictionaries(st.text(max_size=5), inner, max_size=30)),
    max_leaves=40,
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(
        [
            *(("filesystem", {"operation": "write", "path": "x"}), ("git", {"operation": "status"})),
            *(("shell", {}), ("notes", {"operation": "recall"}), ("reply", {})),
        ]
    ),
    st.text(max_size=3000),
)
def test_every_call_that_is_told_parses_to_a_valid_call_of_the_same_tool(
    call: tuple[str, dict[str, Any]], text: str
) -> None:
    """Also a shortened one: the mind may repeat it as it stands. What is short comes back unchanged."""
    tool, args = call
    free = {"filesystem": "content", "git": "args", "shell": "command"}.get(tool, "text")
    action = Action(kind="TOOL", valid=True, tool=tool, args={**args, free: text})

    shown = call_text(action, 1000)
    read = parse(shown, REGISTRY)

    assert read.valid, (shown, read.reason)
    assert len(shown.splitlines()) == 1
    assert {**read.args, free: ""} == {**args, free: ""}
    if len(text) <= 1000 and len(f"{text}.".splitlines()) == text.count("\n") + 1:
        assert read.args[free] == text


def test_the_history_shows_calls_errors_and_results() -> None:
    """The arguments, the error's sentence, the output; no short name, which no parser accepts."""
    git = Action(kind="TOOL", valid=True, tool="git", args={"operation": "status"})
    text = told(
        RecentOutcome(6, git, "success", "clean"),
        RecentOutcome(7, READ, "error", "", error="a.md is not there"),
        RecentOutcome(8, Action(kind="INVALID", valid=False, reason="the reply is empty"), "none", "", raw="Sure!\nHm"),
    )

    calls = re.findall(r"^- cycle \d+: (TOOL.*)$", text, re.MULTILINE)
    assert [parse(call, REGISTRY).args for call in calls] == [git.args, READ.args]
    assert "- result: success\n> clean" in text
    assert "- error: a.md is not there" in text
    assert "no valid action: the reply is empty. It began:\n> Sure!\n> Hm" in text
    assert "git.status" not in text


def test_each_act_has_its_reward_with_the_reasons() -> None:
    """Total, components by weight of the amount, explanations; whether more is to come; none known is said."""
    lines = (RewardLine("part:novelty", 0.01, "new\nDecide."), RewardLine("part:success", -0.25, "it failed"))
    text = told(
        RecentOutcome(7, READ, "error", "", reward=ActReward(-0.24, lines, complete=False)),
        RecentOutcome(8, READ, "success", ""),
    )

    wanted = "so far, not every score has come = success -0.250 (it failed); novelty +0.010 (new Decide.)"
    assert f"- reward -0.240 {wanted}\n" in text
    assert "- reward not known yet" in text


def test_an_experience_tells_the_reward_but_nothing_that_is_held_out() -> None:
    """Explanations come from the scores; a component that is held out has to stay unseen, or it is none."""
    scores = (part("success", 0.4, "it worked"), part("judge", 0.9, "secret words", role="held_out", weight=0.0))

    memory = remember(AgentMemory(), experience(3, 0.2, scores=scores))

    assert memory.rewards[3].lines == (RewardLine("part:success", 0.2, "it worked"),)
    assert "secret" not in memory.model_dump_json()
    assert AgentMemory.model_validate_json(memory.model_dump_json()) == memory


def test_a_later_revision_replaces_an_earlier_one_and_never_the_other_way_round() -> None:
    """Reading experiences again in any order leaves the last word."""
    first, second = experience(3, 0.2), experience(3, -0.4, revision=2)

    memory = AgentMemory()
    for event in (first, second, first):
        memory = remember(memory, event)

    assert memory.rewards[3].total == -0.4
    assert [lesson.reward.total for lesson in memory.lessons] == [-0.4]


def test_lessons_are_the_best_and_the_worst_acts_of_each_skill() -> None:
    """Bounded, the best first; a poorly covered experience teaches nothing; rewards are kept of the last acts alone."""
    memory = AgentMemory()
    for cycle in range(60):
        action = READ.model_copy(update={"args": {"operation": f"o{cycle % 6}", "path": "x" * 5000}})
        memory = remember(memory, experience(cycle, (cycle % 12 - 6) / 10, action=action))
    memory = remember(memory, experience(60, 1.0, coverage=0.1))

    totals = [lesson.reward.total for lesson in memory.lessons]
    assert totals == sorted(totals, reverse=True)
    assert (totals[0], totals[-1]) == (0.5, -0.6)
    assert len([total for total in totals if total > 0]) == LESSONS == len([total for total in totals if total <= 0])
    assert list(memory.rewards) == list(range(61 - REWARDED, 61))
    assert len(memory.model_dump_json()) < 30_000


def test_rewards_of_many_remembered_acts_stay_bounded() -> None:
    """A memory of 300 acts has their totals, each with its three largest lines: what is written fits the bus with
    half a megabyte of waiting messages beside it."""
    memory = AgentMemory(room=10**9)
    lines = tuple(Line(step=f"part:c{n}", amount=n / 100, why="w" * 400) for n in range(12))
    for number in range(400):
        memory = fold(facts(number), memory)
        memory = remember(memory, experience(number, 0.25, breakdown=lines))

    early, late = memory.rewards[memory.recent[0].cycle], memory.rewards[399]
    assert len(memory.recent) == MOST_ACTS
    assert {act.reward.total for act in memory.recall() if act.reward is not None} == {0.25}
    assert [line.step for line in early.lines] == ["part:c11", "part:c10", "part:c9"]
    assert len(late.lines) == 12
    assert len(memory.model_dump_json()) < 350_000


def test_lessons_are_told_as_calls_unless_they_stand_among_the_last_acts() -> None:
    """The best and the worst act as examples, with their rewards."""
    lessons = with_lesson(with_lesson((), experience(1, 0.5)), experience(2, -0.5, action=Action(
        kind="TOOL", valid=True, tool="shell", args={"command": "ls"})))  # fmt: skip

    text = told(lessons=lessons)
    also = told(RecentOutcome(2, READ, "success", ""), lessons=lessons)

    assert (
        '- cycle 1: TOOL: filesystem(operation="read", path="a.md")\n- result: success: fine\n- reward +0.500' in text
    )
    assert '- cycle 2: TOOL: shell(command="ls")' in text
    assert 'shell(command="ls")' not in also


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(max_size=5), values, max_size=4))
def test_shortened_arguments_keep_their_types_and_are_bounded(args: dict[str, Any]) -> None:
    """An array stays an array: the call that is told stays valid."""
    short = with_short_arguments(Action(kind="TOOL", valid=True, tool="t", args=args), 300)

    assert {name: type(value) for name, value in short.args.items()} == {n: type(v) for n, v in args.items()}
    assert all(len(str(shortened(value, 300))) < 8 * 300 for value in args.values())


async def test_a_reward_that_arrives_stands_in_the_next_prompt(life: Life, start: Start) -> None:
    """Of an agent whose mind learns by itself or not: the reward comes over the bus like to any learner."""
    life.configured(cycle={"interval": 0.1})  # the act still stands in the prompt when its reward comes
    life.mind.learns = False
    life.mind.decides = lambda _: 'TOOL: filesystem(operation="list", path=".")'
    running = await start()
    while not running.cycles():
        await running.idle()
    await running.ask("pause")
    cycle = running.cycles()[-1]

    await running.put(experience(cycle, 0.375, source=source_of("echo", life.agentuid)))
    while cycle not in running.agent.memory.rewards:
        await running.idle()
    seen = len(life.mind.asked)
    await running.ask("resume")
    while len(life.mind.asked) < seen + 2:
        await running.idle()

    told = [said.content for prompt in life.mind.asked[seen:] for said in prompt.messages]
    assert any("+0.375 = success +0.375 (the tool succeeded)" in text for text in told)
    assert not life.mind.learnt


async def test_a_restarted_agent_reads_the_rewards_that_came_while_it_was_away(life: Life) -> None:
    """They are no part of what recovery folds: the reader brings them, from the checkpoint on."""
    await life.run(2)
    reward = experience(1, 0.25, source=source_of("echo", life.agentuid))
    async with MemoryBus(life.journal) as bus:
        await bus.publish(subject_of(reward), encode(reward), id=reward.id)

    agent = await life.run(4)

    assert agent.memory.rewards[1].total == 0.25


@pytest.mark.parametrize("size", [10, 100_000])
def test_the_last_results_are_kept_whole_and_older_ones_short(size: int) -> None:
    """8 KiB of the last three outputs, with beginning and end."""
    memory = AgentMemory()
    for number in range(5):
        events = facts(number)
        output = Cut(text="a" + "x" * size + "z", length=size + 2, sha256="")
        events[3] = events[3].model_copy(update={"outcome": Outcome(status="success", output=output)})
        memory = fold(events, memory)

    results = [len(act.result) for act in memory.recall()]
    assert all(act.result.startswith("a") for act in memory.recall())
    assert [act.result.endswith("z") for act in memory.recall()] == (
        [True] * 5 if size == 10 else [False] * 2 + [True] * 3
    )
    assert max(results) <= 8192


async def test_the_prompt_that_would_be_sent_can_be_asked_for(life: Life, start: Start) -> None:
    """A request to the running agent: the same sections that its mind is asked with."""
    running = await start()
    while not running.cycles():
        await running.idle()

    reply = await running.ask("prompt")

    assert reply["prompt"]["purpose"] in ("think", "decide")
    assert reply["prompt"]["system"] == life.mind.asked[0].system
    assert reply["prompt"]["messages"][0]["content"].startswith("Cycle ")
