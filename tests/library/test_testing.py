"""`conch.testing`: what it gives is what a run gives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from pydantic import BaseModel

import conch
from conch.cycle.schedule import Schedule
from conch.errors import ContractError
from conch.testing import (
    FakeClock,
    consume,
    make_action_taken,
    make_experience_recorded,
    make_reward_assigned,
    memory_bus,
    score,
)
from conch_schemas import ActionTaken, RewardAssigned, Score, decode, encode, verify_ids


class Seen(BaseModel):
    """A state."""

    acts: int = 0


@conch.rule(weight=0.1)
def length(action: ActionTaken) -> float | None:
    """None for silence, an error for three, else a value, which may lie outside of the range."""
    if action.raw_length == 3:
        raise ValueError("three")
    return None if action.raw_length == 0 else action.raw_length / 10


@conch.rule(state=Seen, range=(0, 100))
def counting(state: Seen, action: ActionTaken) -> tuple[Seen, float]:
    """How many acts there were with this one; an error in cycle 1."""
    if action.cycle == 1:
        raise ValueError("one")
    return Seen(acts=state.acts + 1), state.acts + 1


@conch.rule(window=2, range=(0, 100))
def widest(actions: Sequence[ActionTaken]) -> float:
    """The acts that it is given."""
    return sum(10**place * (action.cycle or 0) for place, action in enumerate(actions))


@conch.rule(timeout=0.05)
async def slow(action: ActionTaken) -> float:
    """Waits for nothing."""
    await asyncio.Event().wait()
    return 1.0


@conch.consumer(ActionTaken, version="1", state=Seen)
def fold(state: Seen, action: ActionTaken) -> tuple[Seen, RewardAssigned]:
    """Scores an act with how many it saw; fails in cycle 13."""
    if action.cycle == 13:
        raise ValueError("no thirteen")
    after = Seen(acts=state.acts + 1)
    score = Score(component="fold", value=after.acts, range=(0, 9), status="scored", scorer="fold", version="1")
    fact = conch.follow(action, RewardAssigned, consumer="fold", version="1", scorer="fold", scores=(score,))
    return after, fact


@pytest.mark.parametrize(
    ("size", "status", "value"),
    [(5, "scored", 0.5), (0, "not_applicable", None), (3, "error", None), (11, "error", None)],
)
def test_a_rule_is_scored_as_in_a_run(size: int, status: str, value: float | None) -> None:
    """A value in the range, None, an exception, a value outside."""
    found = score(length, make_action_taken(raw_length=size))

    assert (found.status, found.value, found.component, found.version) == (status, value, "length", "1")


def test_a_rule_with_a_state_has_seen_the_history() -> None:
    """An act that it failed at is not in its state."""
    acts = [make_action_taken(cycle) for cycle in range(4)]

    assert score(counting, acts[0]).value == 1
    assert score(counting, acts[3], history=acts[:3]).value == 3


def test_a_rule_with_a_window_is_given_the_last_acts() -> None:
    """So many, the one to be scored as the last."""
    acts = [make_action_taken(cycle) for cycle in (7, 8, 9)]

    assert score(widest, acts[0]).value == 7
    assert score(widest, acts[2], history=acts[:2]).value == 98


def test_a_rule_that_takes_too_long_is_a_timeout() -> None:
    """The test goes on after the rule's time."""
    began = time.monotonic()

    assert score(slow, make_action_taken()).status == "timeout"
    assert time.monotonic() - began < 10


async def test_a_rule_is_scored_inside_of_a_running_loop_too() -> None:
    """Tests of asyncio and notebooks have one."""
    assert score(length, make_action_taken(raw_length=5)).value == 0.5


def test_a_function_that_is_no_rule_is_refused() -> None:
    """A consumer is not one either."""
    with pytest.raises(ContractError, match="fold is no rule"):
        score(fold, make_action_taken())


async def test_a_consumer_is_fed_in_order_and_its_facts_come_back() -> None:
    """A fold with its state, one for each agent."""
    acts = [make_action_taken(cycle, agent) for cycle in (1, 2) for agent in ("ant", "bee")]

    done = await consume(fold, acts)

    values = [(event.agent, event.scores[0].value) for event in done.of(RewardAssigned)]
    assert values == [("ant", 1), ("bee", 1), ("ant", 2), ("bee", 2)]
    assert done.failures == ()


async def test_what_a_consumer_cannot_handle_is_a_failure_with_its_reason() -> None:
    """After as many tries as in a run, without their waits; the others are handled."""
    done = await consume(fold, [make_action_taken(cycle) for cycle in (1, 13, 14)])

    assert [event.scores[0].value for event in done.of(RewardAssigned)] == [1, 2]
    assert [(failure.tries, failure.reason) for failure in done.failures] == [(5, "ValueError: no thirteen")]


async def test_a_fold_that_returns_another_state_is_a_failure() -> None:
    """As it is a dead letter in a run."""

    @conch.consumer(ActionTaken, version="1", state=Seen)
    def wrong(state: Seen, action: ActionTaken) -> tuple[None, None]:
        return None, None

    done = await consume(wrong, [make_action_taken()])

    assert "returned a state that is no Seen" in done.failures[0].reason


async def test_a_fact_that_other_consumers_would_refuse_is_an_error() -> None:
    """An id that does not follow from the cause: in a run it would be a dead letter of everybody else."""

    @conch.consumer(ActionTaken, version="1")
    def forger(action: ActionTaken) -> ActionTaken:
        return action.model_copy(update={"id": "00000000-0000-4000-8000-000000000000"})

    with pytest.raises(ContractError, match="forger published what every consumer refuses"):
        await consume(forger, [make_action_taken()])


async def test_a_function_that_is_no_consumer_is_refused() -> None:
    """A rule is not one either."""
    with pytest.raises(ContractError, match="length is no consumer"):
        await consume(length, [])


def test_made_events_are_valid_on_the_wire() -> None:
    """Their ids follow from what they are, so a consumer takes them."""
    act = make_action_taken(cycle=3, agent="bee")
    for event in (act, make_reward_assigned(act, {"joy": 2.0, "order": None}), make_experience_recorded(act, 0.5)):
        verify_ids(event)
        assert decode(encode(event)) == event


def test_a_clock_moves_when_it_is_told_and_never_back() -> None:
    """The same moment as seconds and as a datetime; the product's schedule goes by it."""
    clock = FakeClock()
    schedule = Schedule(10.0, None, clock)

    clock.advance(4)

    assert schedule.rest() == 6.0
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


async def test_a_memory_bus_over_a_journal_goes_on_where_the_one_before_died() -> None:
    """A crash is a new bus over the same journal."""
    async with memory_bus() as bus:
        await conch.publish(bus, make_action_taken())

    async with memory_bus(bus.journal) as bus:
        assert (await bus.state()).last == 1
