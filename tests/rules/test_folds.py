"""The folds by property: what is said twice, at once or much later, is said once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from conch.config import Settings
from conch.consumer import ServiceContext, bind, follow
from conch.consumer.spec import ConsumerSpec
from conch_schemas import (
    ActionTaken,
    Event,
    FileCheck,
    Goal,
    GoalSet,
    MessageReceived,
    RewardAssigned,
    Score,
)
from conch_services.curiosity.consumer import curiosity as curiosity_consumer
from conch_services.needs.consumer import needs as needs_consumer
from conch_services.reward.consumer import reward as reward_consumer
from conch_services.witness.consumer import witness as witness_consumer

Act = Callable[..., ActionTaken]
CONTEXT = ServiceContext(Settings(), Path())
FOLDS: dict[str, ConsumerSpec] = {
    one.__name__: bind(one, CONTEXT) for one in (needs_consumer, curiosity_consumer, witness_consumer)
}
REWARD = bind(reward_consumer, CONTEXT)

DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["TOOL", "DO_NOTHING", "REFLECT", "INVALID"]),
        st.sampled_from(["success", "error", "timeout", "blocked", "unknown"]),
        st.sampled_from(["shell", "filesystem", "git"]),
        st.sampled_from(["", "one", "two"]),
        st.sampled_from(["nothing", "praise", "message", "goal"]),
    ),
    max_size=30,
)


def _life(act: Act, deeds: Sequence[tuple[str, str, str, str, str]]) -> list[Event]:
    """Acts with the scores of the built-in rules, and among them what people say, set and praise."""
    facts: list[Event] = []
    for cycle, (kind, status, tool, output, beside) in enumerate(deeds):
        done = act(cycle, kind, status=status, tool=tool, output=output, answered=f"m{cycle - 1}")
        facts += [done, REWARD.handle(done)]
        if beside == "praise":
            facts.append(_praise(done))
        elif beside == "message":
            facts.append(MessageReceived(id=f"m{cycle}", source=done.source, agent="echo", text="hello"))
        elif beside == "goal":
            goal = Goal(id=f"g{cycle % 3}", statement="a file", check=FileCheck(path="a"))
            by = "agent" if cycle % 2 else "user"
            facts.append(GoalSet(id=f"set {cycle}", source=done.source, agent="echo", goal=goal, by=by))
    return facts


def _praise(act: ActionTaken) -> RewardAssigned:
    score = Score(component="liked", value=1.0, range=(-1, 1), status="scored", scorer="human", version="1")
    return follow(act, RewardAssigned, consumer="human", version="1", scorer="human", scores=(score,))


def _folded(spec: ConsumerSpec, facts: Sequence[Event]) -> tuple[str, list[str]]:
    """The state after the facts, and the ids of what was said on the way."""
    assert spec.initial is not None
    state: Any = spec.initial()
    said: list[str] = []
    for fact in facts:
        if isinstance(fact, spec.kinds):
            state, events = spec.handle(state, fact)
            said += [event.id for event in ([events] if isinstance(events, Event) else events or ())]
    assert isinstance(state, BaseModel)
    return state.model_dump_json(), said


@pytest.mark.parametrize("name", FOLDS)
@settings(max_examples=60, deadline=None)
@given(deeds=DEEDS, data=st.data())
def test_any_repetition_gives_a_fold_the_same_state(act: Act, name: str, deeds: Any, data: st.DataObject) -> None:
    """Each fact again at once, any fact again at any later time: the same state to the byte, nothing said anew."""
    life = _life(act, deeds)
    told: list[Event] = []
    for place, fact in enumerate(life):
        told += [fact, *(life[data.draw(st.integers(0, place))] for _ in range(data.draw(st.integers(0, 2))))]

    assert _folded(FOLDS[name], told) == _folded(FOLDS[name], life)


@pytest.mark.parametrize("name", FOLDS)
@settings(max_examples=60, deadline=None)
@given(deeds=DEEDS, data=st.data())
def test_any_redelivery_in_order_gives_a_fold_the_same_state(
    act: Act, name: str, deeds: Any, data: st.DataObject
) -> None:
    """However often and from wherever the facts are read again up to the last one, they count once."""
    life = _life(act, deeds)
    told: list[Event] = []
    for place, fact in enumerate(life):
        told += [fact, fact]
        if data.draw(st.booleans()):
            told += life[data.draw(st.integers(0, place)) : place + 1]

    assert _folded(FOLDS[name], told) == _folded(FOLDS[name], life)


@pytest.mark.parametrize("name", FOLDS)
@settings(max_examples=60, deadline=None)
@given(deeds=DEEDS, at=st.integers(0, 60))
def test_a_fold_goes_on_from_its_written_state(act: Act, name: str, deeds: Any, at: int) -> None:
    """A state that was written as JSON and read again is the state that goes on."""
    spec, life = FOLDS[name], _life(act, deeds)
    assert spec.initial is not None
    assert spec.state is not None
    state: Any = spec.initial()
    for place, fact in enumerate(life):
        if place == at:
            state = spec.state.model_validate_json(state.model_dump_json())
        if isinstance(fact, spec.kinds):
            state, _ = spec.handle(state, fact)

    assert state.model_dump_json() == _folded(spec, life)[0]
