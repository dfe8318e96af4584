"""What the watchers see, as metrics."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from conch.bus.checkpoints import encode_state, state_key
from conch.bus.memory import MemoryBus
from conch.rewards.watch import ActiveAlarm, WatchState
from conch_schemas import AgentSlept, AgentWoke, AlarmRaised, BudgetReached
from tests.metrics.conftest import Board, Running, make, make_act

ACTS = 200
HELD_OUT = ActiveAlarm("held_out", "plain", 180, 1.4, 1.0, "the total left the held-out plain", (0.1, 0.1, 0.5, 0.1))


def _state(*active: ActiveAlarm) -> WatchState:
    """Acts of which the newest are paid more, by the part *thorough* alone, and the held-out rule does not follow."""
    paid = tuple(0.1 * (seq % 2) for seq in range(150)) + tuple(0.2 + 0.4 * (seq % 2) for seq in range(50))
    return WatchState(
        seqs=tuple(range(ACTS)),
        revisions=(1,) * ACTS,
        totals=paid,
        lengths=(50,) * 150 + (100,) * 50,
        skills=("shell",) * ACTS,
        paid=("format", "thorough"),
        parts={"format": (0.0,) * ACTS, "thorough": paid},
        held={"plain": (0.5, 0.6) * 100},
        active=active,
    )


def test_the_figures_are_gauges(board: Board) -> None:
    """Share of the variance by component, and what else is watched, of the acts that are remembered."""
    board.watch({"echo": _state()})

    assert board.value("conch_reward_variance_share_ratio", agent="echo", component="thorough") == pytest.approx(1.0)
    assert board.value("conch_reward_variance_share_ratio", agent="echo", component="format") == 0.0
    assert round(board.value("conch_reward_variance_change", agent="echo") or 0, 6) == 16.0
    assert board.value("conch_reply_length_change", agent="echo") == 2.0
    assert (board.value("conch_held_out_gap", agent="echo", component="plain") or 0) > 1.0


def test_active_alarms_are_shown_until_they_are_over(board: Board) -> None:
    """1 for as long as one goes on; the others are there at 0, so that a rule can be written over them."""
    board.watch({"echo": _state(HELD_OUT)})
    assert board.value("conch_alarms_active", agent="echo", alarm="held_out") == 1
    assert board.value("conch_alarms_active", agent="echo", alarm="collapse") == 0

    board.watch({"echo": _state()})
    assert board.value("conch_alarms_active", agent="echo", alarm="held_out") == 0


def test_alarms_are_counted_as_they_begin(board: Board) -> None:
    """Not as they end."""
    data = {"alarm": "collapse", "value": 0.05, "threshold": 0.1, "window": 50, "what": "the total hardly varies"}

    board.count(make(AlarmRaised, active=True, **data), make(AlarmRaised, active=False, **data))

    assert board.value("conch_alarms_total", agent="echo", alarm="collapse") == 1


def test_components_and_agents_stay_few(board: Board) -> None:
    """Beyond the bounds all share one label."""
    many = {f"part{number}": (0.1,) * ACTS for number in range(64)}

    board.watch({"echo": _state().model_copy(update={"parts": many})})

    assert len(board.labels("conch_reward_variance_share_ratio", "component")) <= 51
    few = Board(metrics={"max_agents": 2})
    assert [few.counting.is_shown(agent) for agent in ("echo", "second", "third", "second")] == [
        True,
        True,
        False,
        True,
    ]


async def test_alarms_of_a_run_before_are_shown_from_the_start(bus: MemoryBus, running: Running) -> None:
    """They are read from the watchers' own states: the metrics keep none."""
    await bus.put(state_key("watch", "echo"), encode_state(_state(HELD_OUT), 200, "epoch"), revision=0)

    async with running() as service:
        told = service._instruments.text(openmetrics=False).decode()

    assert 'conch_alarms_active{agent="echo",alarm="held_out"} 1.0\n' in told


def test_a_sleeping_agent_is_shown_until_it_wakes(board: Board) -> None:
    """With the end of its sleep."""
    until = datetime(2026, 11, 24, tzinfo=UTC)
    board.count(make(AgentSlept, number=0, seconds=10.0, until=until, why="no goal is open"))
    assert board.value("conch_agent_asleep_until_timestamp_seconds", agent="echo") == until.timestamp()

    board.count(make(AgentWoke, number=0, by="message", seconds=5.0, why="a message came"))
    assert board.value("conch_agent_asleep_until_timestamp_seconds", agent="echo") == 0


def test_an_agent_at_the_limit_of_its_budget_is_shown_until_it_acts(board: Board) -> None:
    """When it will have room; a limit that never has room is +Inf."""
    until = datetime(2026, 11, 24, tzinfo=UTC)
    data = {"budget": "acts_per_hour", "limit": 3, "used": 3, "why": "3 of 3 acts"}
    board.count(make(BudgetReached, until=until, **data))
    assert board.value("conch_budget_waits_until_timestamp_seconds", agent="echo") == until.timestamp()

    board.count(make(BudgetReached, **data))
    assert board.value("conch_budget_waits_until_timestamp_seconds", agent="echo") == math.inf

    board.count(make_act())
    assert board.value("conch_budget_waits_until_timestamp_seconds", agent="echo") == 0
