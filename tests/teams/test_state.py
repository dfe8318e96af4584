"""The fold of a team: one epoch, nothing lost, nothing twice, wherever it was cut."""

from __future__ import annotations

import random
from functools import reduce

import pytest

from conch.teams import TeamState, followed
from conch.testing import make_action_taken
from conch_schemas import Event, TeamTurn
from tests.teams.made import ROLES, aborted, decided, formed, message, prepared, rewarded, switched

KILLS = 20


def _story(seed: int) -> list[Event]:
    """Steps with messages, switches committed and aborted, decisions and rewards, as a team publishes them."""
    draws, events, epoch, topology, number = random.Random(seed), list[Event](), 0, "star", 0
    events.append(formed())
    for step in range(12):
        for _ in range(draws.randrange(3)):
            events.append(message(number, "planner", draws.choice(ROLES[1:]), epoch, step))
            number += 1
        choice = decided(step, topology=topology)
        events.append(choice)
        if draws.random() < 0.6:
            topology = draws.choice([one for one in ("star", "chain", "flat") if one != topology])
            events.append(prepared(epoch, topology))
            for _ in range(draws.randrange(3)):
                events.append(message(number, "planner", draws.choice(ROLES[1:]), epoch + 1, step))
                number += 1
            epoch += 1
            events.append(switched(epoch, topology))
        events.append(rewarded(choice.id, draws.uniform(-1, 1), step))
    return events


def _all(events: list[Event], state: TeamState) -> TeamState:
    return reduce(followed, events, state)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_crash_at_any_event_resumes_in_one_epoch_with_nothing_lost_or_doubled(seed: int) -> None:
    """Cut at a random event, written as JSON, read again, with the last events delivered once more: the state is that
    of the whole stream."""
    events, draws = _story(seed), random.Random(seed)
    whole = _all(events, TeamState())
    cut = draws.randrange(len(events))
    before = _all(events[:cut], TeamState())

    resumed = TeamState.model_validate_json(before.model_dump_json())
    resumed = _all(events[max(0, cut - draws.randrange(6)) :], resumed)

    assert resumed == whole
    assert resumed.router.target is None
    assert whole.controller.rewards == 12


def test_a_switch_without_its_end_stays_in_the_old_epoch() -> None:
    """Between prepare and commit the old topology is active and what was sent then waits; the abort keeps the order."""
    state = _all([formed(), message(0, "planner", "coder"), prepared(0, "chain")], TeamState())
    state = followed(state, message(1, "planner", "coder", epoch=1))
    assert (state.router.epoch, state.router.topology, len(state.inbox("coder"))) == (0, "star", 1)

    state = followed(state, aborted(0))

    assert [one.text for one in state.inbox("coder")] == ["message 0", "message 1"]
    assert {one.epoch for one in state.inbox("coder")} == {0}


def test_a_commit_that_is_read_twice_is_one_epoch() -> None:
    """Neither the second commit nor a late prepare of the old epoch moves it."""
    events: list[Event] = [formed(), prepared(0, "chain"), switched(1, "chain")]
    state = _all(events, TeamState())

    assert _all([*events[1:], *events[1:]], state) == state


def test_a_refused_choice_is_learnt_as_staying() -> None:
    """The reward of a switch that was not begun goes to `stay`."""
    choice = decided(0, "flat", refused="dwell")
    state = _all([formed(), choice, rewarded(choice.id, 1.0)], TeamState())

    assert state.controller.models[0].weights != state.controller.models[3].weights
    assert not any(state.controller.models[3].weights)


def test_a_switch_that_was_aborted_is_learnt_as_staying() -> None:
    """Its choice was flat, and the team stayed a star; an abort of a person's switch changes no decision."""
    choice = decided(0, "flat")
    state = _all([formed(), choice, prepared(0, "flat"), aborted(0), rewarded(choice.id, 1.0)], TeamState())
    other = decided(0, "star")
    asked = _all([formed(), other, prepared(0, "flat"), aborted(0), rewarded(other.id, 1.0)], TeamState())

    assert [any(model.weights) for model in state.controller.models] == [True, False, False, False]
    assert [any(model.weights) for model in asked.controller.models] == [False, True, False, False]


def test_the_last_step_of_a_task_is_a_step_of_its_own_in_the_window() -> None:
    """No decision ends it; the messages of the next task's first step stand in another step all the same."""
    turns = [TeamTurn(team="crew", role="planner", step=step, epoch=0, topology="star") for step in range(2)]
    acts = [make_action_taken(step, "crew", team=turn) for step, turn in enumerate(turns)]
    events: list[Event] = [formed(), acts[0], message(0, "planner", "coder"), acts[1], message(1, "coder", "planner")]
    state = _all(events, TeamState())

    assert (state.window, state.sending) == ((("planner",),), ("coder",))
    assert followed(state, decided(1)).window == (("planner",), ("coder",))


def test_roles_that_change_keep_what_was_learnt() -> None:
    """A team that is formed again with other roles keeps its epoch and its controller."""
    choice = decided(0)
    state = _all([formed(), choice, rewarded(choice.id, 1.0), prepared(0, "flat"), switched(1, "flat")], TeamState())
    after = followed(state, formed("chain", roles=("planner", "coder"), controller="frozen"))

    assert (after.roles, after.router.topology, after.router.epoch) == (("planner", "coder"), "flat", 1)
    assert after.controller == state.controller
