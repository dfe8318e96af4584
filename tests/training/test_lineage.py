"""The state of a lineage is what its events say, whatever is said twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.training import LineageState, after, lineage_of
from conch_schemas import (
    AdapterGated,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    AdapterTried,
    Event,
    TrainingFailed,
    TrainingFinished,
    TrainingProgressed,
    TrainingStarted,
    training_id,
)

AGENT = "11111111-1111-4111-8111-111111111111"
ROUND, ADAPTER = "a" * 64, "b" * 64


def said(kind: type[Event], *parts: object, **data: Any) -> Any:
    """An event of the lineage."""
    return kind(id=training_id(AGENT, kind, *parts), source=f"conch/echo/{AGENT}", agent="echo", **data)


def begun(round: str = ROUND, attempt: int = 1) -> Any:
    more = {"method": "sft", "generation": 1, "base": "tiny", "snapshot": "s", "rows": 9, "why": "schedule"}
    return said(TrainingStarted, round, attempt, round=round, attempt=attempt, **more)


def step(number: int, attempt: int = 1) -> Any:
    more = {"round": ROUND, "attempt": attempt, "steps": 4, "epoch": 1.0, "loss": 1.0 / number}
    return said(TrainingProgressed, ROUND, attempt, number, step=number, **more)


FINISHED = said(TrainingFinished, ROUND, round=ROUND, attempt=1, adapter=ADAPTER, bytes=1, seconds=1.0)
_GATE = {"number": 1, "alpha": 0.03, "pairs": 9, "evidence": "x", "conditions": ()}
GATED = said(AdapterGated, ROUND, round=ROUND, adapter=ADAPTER, incumbent=None, verdict="passed", **_GATE)
_TRIAL = {"round": ROUND, "adapter": ADAPTER, "incumbent": None, "stage": "canary", "cycle_from": 9}
BEGINS = said(AdapterTried, ROUND, "begun", verdict=None, **_TRIAL)
ENDS = said(AdapterTried, ROUND, "ended", verdict="better", **_TRIAL)
PROMOTED = said(
    AdapterPromoted, 1, adapter=ADAPTER, previous=None, generation=1, move=1, by="trial", round=ROUND, why="better"
)
BACK = said(AdapterRolledBack, 2, adapter=ADAPTER, to=None, generation=0, move=2, trigger="worse", why="worse")
LIFE = [begun(), step(1), step(2), FINISHED, GATED, BEGINS, ENDS, PROMOTED, BACK]


def test_each_event_leads_to_its_phase() -> None:
    """From the first round to a rollback; the pointer's moves say what acts."""
    state, phases = LineageState(), []
    for event in LIFE:
        state = after(state, event)
        phases.append(state.phase)

    assert phases == ["training"] * 3 + ["gating"] * 2 + ["canary", "gating", "active", "rolled back"]
    assert (state.adapter, state.generation, state.move, state.gates) == (None, 0, 2, 1)
    assert lineage_of(LIFE[:-1]).adapter == ADAPTER


@given(again=st.lists(st.integers(0, len(LIFE) - 1), max_size=20))
def test_what_is_said_again_changes_nothing(again: list[int]) -> None:
    """Any events, in any order, after all of them."""
    whole = lineage_of(LIFE)

    assert lineage_of([*LIFE, *(LIFE[place] for place in again)]) == whole


def test_a_second_attempt_begins_its_round_anew() -> None:
    """The curve of the first one is gone; a late figure of it does not come back."""
    state = lineage_of([begun(), step(1), begun(attempt=2), step(2), step(1, attempt=2)])

    assert state.round is not None
    assert [(one.attempt, one.step) for one in state.round.progress] == [(2, 1)]
    assert len(state.rounds) == 1


def test_a_step_and_its_evaluation_are_one_point() -> None:
    """Whichever is heard first, and heard again: the point has the loss of the one, the held-out loss of the other."""
    found = {"round": ROUND, "attempt": 1, "steps": 4, "epoch": 1.0, "step": 1, "eval_loss": 0.5, "kl": 2.0}
    evaluation = said(TrainingProgressed, ROUND, 1, 1, "evaluation", **found)

    for events in ([step(1), evaluation, step(1)], [evaluation, step(1), evaluation]):
        state = lineage_of([begun(), *events])
        assert state.round is not None
        [point] = state.round.progress
        assert (point.loss, point.eval_loss, point.kl) == (1.0, 0.5, 2.0)


@pytest.mark.parametrize(("again", "phase"), [(True, "training"), (False, "failed")])
def test_a_failure_ends_a_round_unless_it_is_tried_again(again: bool, phase: str) -> None:
    """Failures in a row are counted."""
    state = lineage_of([begun(), said(TrainingFailed, ROUND, round=ROUND, attempt=1, why="disk full", again=again)])

    assert state.phase == phase
    assert state.failures == (0 if again else 1)


def test_refusals_in_a_row_are_counted_up_to_the_newest_round() -> None:
    """A round that failed in between ends the row."""
    events: list[Event] = []
    for number, kind in enumerate("rfrr"):
        name = f"{number:064x}"
        events.append(begun(name))
        if kind == "f":
            events.append(said(TrainingFailed, name, round=name, attempt=1, why="no"))
        else:
            events.append(said(AdapterRefused, name, round=name, adapter=ADAPTER, at="gate", why="no"))

    assert lineage_of(events).refusals == 2


def test_a_long_curve_is_thinned_and_keeps_its_last_point() -> None:
    """Memory is bounded by MOST_PROGRESS points."""
    state = lineage_of([begun(), *(step(number) for number in range(1, 1_200))])

    assert state.round is not None
    assert len(state.round.progress) <= 501
    assert state.round.progress[-1].step == 1_199
