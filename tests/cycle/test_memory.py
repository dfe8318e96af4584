"""The memory as a fold over facts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.cycle.state.memory import (
    HOUR,
    MOST_ANSWERED,
    MOST_WAITING,
    WAITING_BYTES,
    AgentMemory,
    TokensSpent,
    remember,
)
from conch.text import cut
from conch_schemas import (
    Action,
    ActionDecided,
    ActionTaken,
    CycleReflected,
    Event,
    FileCheck,
    Goal,
    GoalCheck,
    GoalDropped,
    GoalReached,
    GoalSet,
    MessageReceived,
    MessageSent,
    NeedsChanged,
    Outcome,
    ThoughtFormed,
    ThoughtGrounded,
    Usage,
)

AGENTUID = "6b0c29a5-9d4e-4a86-8a8c-3c8f6f2f9b11"
ACT = {"raw": "", "raw_length": 0, "raw_sha256": "", "model": "m"}


def make(kind: type[Event], key: object, at: float = 0.0, **data: Any) -> Any:
    envelope = {"id": f"{kind.TYPE}/{key}", "source": f"conch/echo/{AGENTUID}", "agent": "echo"}
    return kind.model_validate(envelope | {"time": datetime.fromtimestamp(at, UTC)} | data)


def cycle(number: int, checks: tuple[GoalCheck, ...] = (), tokens: int = 10) -> list[Event]:
    """The facts of one cycle."""
    action = Action(kind="TOOL", valid=True, tool="shell", args={"command": "ls"})
    usage, of = Usage(output_tokens=tokens), {"cycle": number, "at": number * 30.0}
    thought = {"thought": cut("t"), "need": "n", "pressing": {}, "model": "m", "ms": 0, "usage": usage}
    outcome = Outcome(status="success", output=cut("done"))
    decided = {"messages": (), "action": action, "finish_reason": "stop", "ms": 0, "usage": usage}
    taken = {"action": action, "outcome": outcome, "goals": checks, "needs": {}, "ms": {}}
    return [
        make(ThoughtFormed, number, **of, **thought),
        make(ThoughtGrounded, number, **of, claims=(), memory=(), ms=0),
        make(ActionDecided, number, **of, **ACT, **decided),
        make(ActionTaken, number, **of, **ACT, **taken),
        make(CycleReflected, number, **of, reflection="", sleep=0, ms=0, usage=usage),
    ]


def goal(id: str) -> Goal:
    return Goal(id=id, statement=id, check=FileCheck(path=id))


def fold(events: list[Event], memory: AgentMemory | None = None) -> AgentMemory:
    memory = memory if memory is not None else AgentMemory()
    for event in events:
        memory = remember(memory, event)
    return memory


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """What an agent's stream may hold: cycles, the last one cut short, with told facts between."""
    events: list[Event] = []
    goals = draw(st.integers(0, 3))
    told: list[Event] = [make(GoalSet, n, goal=goal(f"g{n}")) for n in range(goals)]
    told += [make(MessageReceived, n, text=f"hello {n}") for n in range(draw(st.integers(0, 4)))]
    ends: list[Event] = [make(GoalDropped, n, goal=f"g{n}") for n in range(goals) if draw(st.booleans())]
    ends += [make(GoalReached, n, goal=f"g{n}", statement="") for n in range(goals) if draw(st.booleans())]
    ends += [make(MessageSent, n, text="", answers=f"message.received/{n}") for n in range(4) if draw(st.booleans())]
    for number in range(draw(st.integers(0, 5))):
        outcomes = st.sampled_from(["achieved", "partial", "neutral", "error"])
        measures = st.sampled_from([0.0, 0.5, 1.0])
        checks = tuple(
            GoalCheck(goal=f"g{n}", statement="", outcome=draw(outcomes), measure=draw(measures), best=0.0)
            for n in range(goals)
        )
        facts = cycle(number, checks, draw(st.integers(0, 5)))
        facts.insert(
            draw(st.integers(0, 5)), make(NeedsChanged, number, before={}, after={"n": draw(measures)}, **NEEDS)
        )
        events += facts
    events = events[: draw(st.integers(0, len(events)))] if events else []
    for fact in (*told, *ends):
        known = [at for at, event in enumerate(events) if event in told]
        events.insert(draw(st.integers(max(known, default=-1) + 1 if fact in ends else 0, len(events))), fact)
    return events


NEEDS: dict[str, Any] = {"drift": {}, "changes": (), "most_pressing": "n"}


@settings(max_examples=150, deadline=None)
@given(histories(), st.data())
def test_a_fact_that_comes_again_changes_nothing(events: list[Event], data: st.DataObject) -> None:
    """However late an old fact is read a second time, the memory is as without it (of needs the last one counts)."""
    memory = fold(events)
    again = [event for event in events if not isinstance(event, NeedsChanged)]
    late = data.draw(st.lists(st.sampled_from(again), max_size=8)) if again else []

    assert fold(late, memory) == memory


@settings(max_examples=150, deadline=None)
@given(histories(), st.data())
def test_reading_again_from_any_earlier_place_gives_the_same(events: list[Event], data: st.DataObject) -> None:
    """A snapshot that holds more than its place says is no harm: the rest is read again, needs too."""
    memory = fold(events)
    place = data.draw(st.integers(0, len(events)))

    assert fold(events[place:], memory) == memory


@settings(max_examples=50, deadline=None)
@given(histories())
def test_the_memory_survives_being_written_down(events: list[Event]) -> None:
    """What is read back is what was written, an open cycle included."""
    memory = fold(events)

    assert AgentMemory.model_validate_json(memory.model_dump_json()) == memory


def test_the_phase_is_the_step_that_comes_next() -> None:
    """From fact to fact of a cycle; between two of them it rests."""
    facts = cycle(0)

    assert [fold(facts[:count]).phase for count in range(len(facts) + 1)] == [
        "rest", "ground", "decide", "act", "reflect", "rest",
    ]  # fmt: skip


def test_a_months_memory_is_no_larger_than_an_hours() -> None:
    """Spending, last acts and answered messages are bounded however many cycles there were."""
    memory = AgentMemory()
    for number in range(3000):
        memory = fold(cycle(number), memory)
        key = f"message.received/{number}"
        memory = remember(memory, make(MessageReceived, number, text="hello"))
        memory = remember(memory, make(MessageSent, number, text="", answers=key))

    assert len(memory.recent) == 10
    assert len(memory.spent) <= 400
    assert len(memory.answered) == MOST_ANSWERED
    assert len(memory.model_dump_json()) < 200_000


def test_a_remembered_act_is_short() -> None:
    """A file of 60 KB that was written is not carried about in the memory."""
    act = cycle(0)[3]
    huge = Action(kind="TOOL", valid=True, tool="filesystem", args={"content": "x" * 60_000, "list": ["y" * 60_000]})
    memory = fold([*cycle(0)[:3], act.model_copy(update={"action": huge})])

    assert len(memory.recent[0].model_dump_json()) < 6_000
    assert memory.recent[0].action.skill == "filesystem"


@pytest.mark.parametrize(("count", "size"), [(MOST_WAITING + 5, 10), (20, WAITING_BYTES // 10)])
def test_only_so_many_messages_wait(count: int, size: int) -> None:
    """Beyond the bounds a message does not wait, and there is said to be no room."""
    memory = fold([make(MessageReceived, n, text="é" * (size // 2)) for n in range(count)])

    assert len(memory.waiting) == min(MOST_WAITING, WAITING_BYTES // (size + 2))
    assert not memory.has_room("é" * (size // 2))


def test_the_oldest_message_is_the_first() -> None:
    """Messages wait in the order in which they came."""
    memory = fold([make(MessageReceived, n, text=str(n)) for n in range(3)])
    memory = remember(memory, make(MessageSent, 0, text="", answers="message.received/0"))

    assert [waiting.text for waiting in memory.waiting] == ["1", "2"]


def test_an_hours_tokens_are_all_counted() -> None:
    """3,600 short cycles in an hour: none of their tokens is forgotten before the hour is over."""
    memory = AgentMemory()
    for number in range(3600):
        [thought, *_, reflected] = [fact.model_copy(update={"time": _at(number)}) for fact in cycle(number)]
        memory = fold([thought, reflected], memory)

    assert memory.tokens_in_hour(3600.0) >= 3590 * 20
    assert len(memory.spent) <= 362


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_the_budgets_end_is_when_enough_is_an_hour_old() -> None:
    """`until_below` names the time at which the hour's tokens are below the limit."""
    memory = AgentMemory(
        spent=(
            TokensSpent(time=100.0, tokens=50),
            TokensSpent(time=200.0, tokens=30),
            TokensSpent(time=300.0, tokens=40),
        )
    )

    assert memory.until_below(100, 310.0) == 100.0 + HOUR
    assert memory.until_below(60, 310.0) == 200.0 + HOUR
    assert memory.until_below(121, 310.0) == 310.0
    assert memory.tokens_in_hour(200.0 + HOUR) == 40


def test_a_clock_that_was_set_back_blocks_nobody() -> None:
    """What was spent at a time that lies ahead is not waited for."""
    memory = AgentMemory(spent=(TokensSpent(time=1e9, tokens=500),))

    assert memory.until_below(100, 1000.0) == 1000.0


@pytest.mark.parametrize(
    ("part", "value", "tried"),
    [
        ("raw", "an attempt", True),
        ("outcome", Outcome(status="none", output=cut("")), False),
        ("action", Action(kind="TOOL", valid=True, tool="reply"), False),
    ],
)
def test_only_an_act_that_could_achieve_a_goal_has_tried(part: str, value: Any, tried: bool) -> None:
    """Doing nothing, or reading, is no attempt: what follows it solves no problem that an attempt left open."""
    check = GoalCheck(goal="g", statement="", outcome="neutral", measure=0.0, best=0.0)
    facts = cycle(0, (check,))
    memory = fold([make(GoalSet, 0, goal=goal("g")), *facts[:3], facts[3].model_copy(update={part: value})])

    assert memory.goals["g"].tried is tried
