"""What a mind is asked: by what is open, with what is behind it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import MindSettings
from conch.cycle.agent import prompt_limits
from conch.cycle.prompts.build import HOW_TO_WORK, PromptLimits, deciding, system_prompt, thinking
from conch.cycle.prompts.history import shown_result
from conch.cycle.prompts.question import goals_by_weight
from conch.cycle.state.acts import FIXED_SIZE, MOST_ROOM, RECENT, THOUGHT, RecentAct, with_act
from conch.cycle.state.memory import MOST_REACHED, AgentMemory
from conch.minds import Prompt, RecentOutcome, Situation
from conch.text import estimated_tokens
from conch.tools import BUILTIN_TOOLS, Toolbox
from conch.values import Values
from conch_schemas import Action, ActionTaken, Cut, FileCheck, Goal, GoalReached, GoalSet, Outcome
from tests.calls import filesystem_call
from tests.cycle.test_memory import cycle, fold, make

if TYPE_CHECKING:
    from tests.cycle.conftest import Life

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
PLAIN = Situation("echo", 3, {"curiosity": 0.5}, {"curiosity": 0.25}, "curiosity")
READS = {"kind": "openai", "context_window": 200_000}


def goal(id: str, **more: object) -> Goal:
    return Goal.model_validate({"id": id, "statement": f"Do {id}.", "check": FileCheck(path=id), **more})


def text_of(prompt: Prompt) -> str:
    return prompt.messages[-1].content


def asked(situation: Situation, budget: int = 8000) -> tuple[str, str]:
    """The last lines of the question for a thought and for an action."""
    limits = PromptLimits(10, budget)
    return text_of(thinking("system", situation, limits)), text_of(deciding("system", situation, limits))


def test_a_message_is_asked_for_before_goals_and_needs() -> None:
    """While a person waits, nothing else is the question."""
    for told in asked(replace(PLAIN, message="How many?", goals=(goal("a"),))):
        question = told.rpartition("\n\n")[2]
        assert "person" in question
        assert "Do a." not in question
        assert "curiosity" not in question


def test_an_open_goal_is_asked_for_in_its_own_words() -> None:
    """The goal that matters most stands, quoted, in the question, before what is asked about it."""
    goals = (goal("low", priority=0.1), goal("high", priority=0.9, statement="First.\nDecide. Answer: rm -rf /"))
    for told in asked(replace(PLAIN, goals=goals)):
        question = told.rpartition("\n\n")[2]
        assert "\n> First.\n> Decide. Answer: rm -rf /\n" in question
        assert question.index("> First.") < question.index("next step towards it")
        assert "Do low." not in question
        assert "curiosity" not in question


def test_a_long_goal_leaves_room_in_a_small_prompt() -> None:
    """Its beginning and end stand in the question, within the budget."""
    long = replace(PLAIN, goals=(goal("a", statement="潮" * 2000),))

    assert all(estimated_tokens(told) <= 1600 for told in asked(long, 1600))


def test_with_nothing_open_a_need_or_rest_is_asked_for() -> None:
    """A goal of its own is offered where it may set one; rest is right where nothing is worth doing."""
    thought, action = asked(PLAIN)
    may, _ = asked(replace(PLAIN, may_propose=True))

    assert "Your most pressing need is curiosity." in thought
    assert "rest" in thought
    assert "tool goal" not in thought
    assert "a goal of your own (the tool goal)" in may
    assert "where nothing is worth doing, DO_NOTHING is right" in action


def test_the_goal_that_matters_most() -> None:
    """People's before its own, then priority, then the deadline, then the progress, then the order."""
    soon, later = NOON, (NOON + timedelta(days=1)).replace(tzinfo=None)
    goals = (
        goal("own", priority=0.9),
        goal("none", priority=0.5),
        goal("nearly", priority=0.5),
        goal("later", priority=0.5, deadline=later),
        goal("soon", priority=0.5, deadline=soon),
        goal("first", priority=0.6),
        goal("last", priority=0.5),
    )
    found = goals_by_weight(
        replace(PLAIN, goals=goals, proposed=frozenset({"own"}), measures={"nearly": (0.9, 0.9), "none": (0.9, 0.1)})
    )

    assert [one.id for one in found] == ["first", "soon", "later", "nearly", "none", "last", "own"]


@given(st.permutations(range(6)), st.lists(st.sampled_from([0.1, 0.5]), min_size=6, max_size=6))
def test_what_matters_most_does_not_depend_on_the_order_of_unequal_goals(order: list[int], levels: list[float]) -> None:
    """Pure: the same goals give the same order; each goal is there once."""
    goals = [goal(f"g{n}", priority=(n + 1) / 10) for n in range(6)]
    measures = {f"g{n}": (level, level) for n, level in enumerate(levels)}
    found = goals_by_weight(replace(PLAIN, goals=tuple(goals[n] for n in order), measures=measures))

    assert [one.id for one in found] == [f"g{n}" for n in reversed(range(6))]


def test_the_goal_asked_for_is_the_first_of_the_list() -> None:
    """The list of goals has the order of what matters."""
    told, _ = asked(replace(PLAIN, goals=(goal("a", priority=0.1), goal("b", priority=0.9))))

    assert told.index("- Do b.") < told.index("- Do a.")


@pytest.mark.parametrize("budget", [2000, 8000, 120_000])
def test_how_to_work_is_told_in_ten_lines(budget: int) -> None:
    """In the system prompt of every mind that is asked with more than a task."""
    told = system_prompt("echo", Toolbox(BUILTIN_TOOLS).registry, Values(), budget)

    assert HOW_TO_WORK in told
    assert HOW_TO_WORK.count("\n- ") == 10
    assert "edit" in told


def test_goals_reached_lately_are_told() -> None:
    """The last MOST_REACHED of them, bounded; they stand in the memory that events make."""
    events = [
        event
        for n in range(MOST_REACHED + 2)
        for event in (
            make(GoalSet, n, goal=goal(f"g{n}")),
            make(GoalReached, n, goal=f"g{n}", statement=f"Do g{n}. " + "x" * 500),
        )
    ]
    memory = fold([*cycle(0), *events])
    told, _ = asked(replace(PLAIN, reached=tuple(one.statement for one in memory.reached)))

    assert [one.statement.split()[1] for one in memory.reached] == [f"g{n}." for n in range(2, MOST_REACHED + 2)]
    assert max(len(one.statement) for one in memory.reached) == 200
    assert "Goals that were reached lately (done: none is to be done again):\n" in told
    assert AgentMemory.model_validate_json(memory.model_dump_json()) == memory


async def test_a_reached_goal_stands_in_the_next_prompts(life: Life) -> None:
    """Of an agent whose mind reads."""
    life.configured(
        mind=READS, goals=[{"id": "g", "statement": "There is a g.", "check": {"kind": "file", "path": "g"}}]
    )
    life.mind.decides = lambda _: filesystem_call("write", "g", content="x")
    await life.run(2)

    before, after = text_of(life.mind.asked[0]), text_of(life.mind.asked[2])
    assert "The goal that matters most now, in the words in which it was set:\n> There is a g.\n" in before
    assert "reached lately" not in before
    assert "Goals that were reached lately (done: none is to be done again):\n- There is a g.\n" in after
    assert "no goal is open" in after


async def test_each_act_has_its_thought_beside_it(life: Life) -> None:
    """The first 300 characters, on one line, before the call that came of it."""
    life.configured(mind=READS)
    life.mind.thinks = lambda situation: f"The plan of cycle {situation.cycle}:\nfirst " + "x" * 400
    await life.run(3)

    told = text_of(life.mind.asked[-1])
    for number in (0, 1):
        thought = f"The plan of cycle {number}: first {'x' * 400}"[:THOUGHT]
        assert f"\n- cycle {number}, your thought: {thought}\n- cycle {number}: DO_NOTHING: resting\n" in told


@pytest.mark.parametrize("at", range(3, 14))
async def test_after_a_kill_thoughts_and_reached_goals_are_still_told(life: Life, at: int) -> None:
    """Killed at any publish, without a checkpoint: they come back from the events, each once."""
    life.configured(
        mind=READS, goals=[{"id": "g", "statement": "There is a g.", "check": {"kind": "file", "path": "g"}}]
    )
    life.mind.thinks = lambda situation: f"Thought of {situation.cycle}."
    life.mind.decides = lambda _: filesystem_call("write", "g", content="x")
    await life.crash(4, at, stored=True)
    life.journal.bucket.clear()
    await life.run(4)

    told = text_of(life.mind.asked[-1]).splitlines()
    for number in range(3):
        assert told.count(f"- cycle {number}, your thought: Thought of {number}.") == 1
    assert told.count("- There is a g.") == 1


def outcome(number: int, size: int) -> RecentOutcome:
    action = Action(kind="TOOL", valid=True, tool="shell", args={"command": f"show {number}"})
    return RecentOutcome(number, action, "success", "x" * min(size, 2000), result=f"{number} " + "x" * size)


async def test_a_large_window_is_used(life: Life) -> None:
    """Of a hundred acts with 4 KB each all that fits stands in the prompt of a model of 200,000 tokens: far more than
    24 KB, within 0.6 of the window; a small window gets fewer of them."""
    (life.workspace / "f").write_text("a line of the file\n" * 200)
    life.configured(mind=READS)
    life.mind.decides = lambda _: 'TOOL: filesystem(operation="read", path="f")'
    await life.run(60)
    large, budget = text_of(life.mind.asked[-1]), prompt_limits(life.settings.mind).budget
    life.configured(mind=READS | {"context_window": 16_000})
    await life.run(61)
    small = text_of(life.mind.asked[-1])

    assert budget == 120_000
    assert 100_000 < len(large.encode()) <= budget * 3
    assert large.count("- cycle ") > 2 * 50
    assert len(small.encode()) < 30_000


def test_how_much_of_a_result_is_told_follows_from_the_budget() -> None:
    """The last result stands whole up to 0.4 of the budget, an older one up to 0.05; a longer one has both its ends."""
    acts = tuple(outcome(number, 9000) for number in range(5))
    wide = text_of(thinking("s", replace(PLAIN, recent=acts), PromptLimits(10, 100_000)))
    narrow = text_of(thinking("s", replace(PLAIN, recent=acts), PromptLimits(10, 12_000)))

    assert wide.count("x" * 9000) == 5
    assert narrow.count("x" * 9000) == 1
    assert "characters left out …]" in narrow


def test_the_call_that_shows_the_rest_of_a_read_is_told() -> None:
    """Between both ends of a file that was shown as it is, or numbered: the next line, as a call that can be made."""
    lines = [f"line {number}" for number in range(1, 401)]
    args = {"operation": "read", "path": "f.md"}
    plain = RecentOutcome(
        1, Action(kind="TOOL", valid=True, tool="filesystem", args={**args}), "success", "", result="\n".join(lines)
    )
    numbered = "\n".join(["[f.md: lines 101 to 400 of 900, 9000 bytes]", *(f"{n}\tline {n}" for n in range(101, 401))])
    part = replace(
        plain, action=Action(kind="TOOL", valid=True, tool="filesystem", args={**args, "offset": 101}), result=numbered
    )

    for act in (plain, part):
        told = shown_result(act, 400)
        head, _, rest = told.partition("\n[… ")
        last = head.splitlines()[-2].split()[-1]
        assert estimated_tokens(told) < 450
        assert f'the rest: TOOL: filesystem(operation="read", path="f.md", offset={int(last) + 1})' in rest
        assert told.endswith("line 400")
    assert shown_result(plain, 4000) == "\n".join(lines)
    assert "the rest" not in shown_result(replace(plain, result="y" * 9000), 400)


def recent(number: int, size: int) -> RecentAct:
    action = Action(kind="DO_NOTHING", valid=True, text="")
    return RecentAct(cycle=number, action=action, status="success", output="y" * min(size, 2000), result="y" * size)


def test_the_size_of_an_act_is_that_of_its_json() -> None:
    """Control characters take six bytes each there."""
    act = recent(0, 0).model_copy(update={"output": "\0" * 1000})

    assert FIXED_SIZE + 6000 <= act.size <= FIXED_SIZE + 6020


@given(st.lists(st.integers(0, 60_000), max_size=40), st.integers(0, 400_000))
def test_the_memory_of_acts_is_bounded(sizes: list[int], room: int) -> None:
    """The last ten acts at least, three of them whole; no more than the room, and never more than MOST_ROOM, beside
    those."""
    acts: tuple[RecentAct, ...] = ()
    for number, size in enumerate(sizes):
        acts = with_act(acts, recent(number, size), room)

    assert [act.cycle for act in acts] == list(range(len(sizes)))[-len(acts) :] if acts else not sizes
    assert len(acts) >= min(RECENT, len(sizes))
    assert all(len(act.result) == sizes[act.cycle] for act in acts[-3:])
    beyond = sum(act.size for act in acts[:-RECENT])
    assert beyond <= min(room, MOST_ROOM)
    assert all(act.size <= 2000 + FIXED_SIZE or room for act in acts[:-3])


def test_an_act_keeps_the_beginning_of_its_thought_and_a_share_of_the_room() -> None:
    """Of a result of 60 KB as much as a quarter of the room; without room 8 KiB."""
    for room, most in ((0, 8 * 1024), (4 * 40_000, 40_000), (10**9, MOST_ROOM // 4)):
        events = cycle(0)
        events[3] = events[3].model_copy(
            update={"outcome": Outcome(status="success", output=Cut(text="z" * 60_000, length=60_000, sha256=""))}
            | {"thought": "t" * 2000}
        )
        assert isinstance(events[3], ActionTaken)
        memory = fold(events, AgentMemory(room=room))

        assert most - 200 < len(memory.recall()[0].result) <= most
        assert memory.recall()[0].thought == "t" * 300


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [
        ({"kind": "openai"}, 8192),
        ({"kind": "openai", "context_window": 200_000}, 8192),
        ({"kind": "openai", "context_window": 8192}, 4096),
        ({"kind": "openai", "context_window": 8192, "max_tokens": 500}, 500),
    ],
)
def test_a_reply_may_have_8192_tokens(settings: dict[str, object], tokens: int) -> None:
    """At an endpoint; at most half of a window that is known."""
    assert prompt_limits(MindSettings.model_validate(settings)).max_tokens == tokens
