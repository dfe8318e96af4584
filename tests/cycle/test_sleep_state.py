"""What an agent remembers of its sleep: a fold that the same event changes once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from conch.config import SleepSettings
from conch.cycle.sleep.rules import length, stirs_at_once
from conch.cycle.sleep.state import STIRS, SleepState
from conch_schemas import AgentSlept, AgentWoke, WakeReason

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
AROUND = {"source": "conch/echo/uuid", "agent": "echo"}


def slept(number: int) -> AgentSlept:
    return AgentSlept(id=f"s{number}", number=number, seconds=10.0, until=NOON, why="no goal is open", **AROUND)


def woke(number: int, by: WakeReason = "message") -> AgentWoke:
    return AgentWoke(id=f"w{number}", number=number, by=by, why="something came", time=NOON, **AROUND)


@given(sleeps=st.lists(st.sampled_from(["on", "message", "file"]), max_size=20), again=st.integers(0, 30))
def test_an_event_that_was_applied_changes_nothing_however_late(sleeps: list[str], again: int) -> None:
    """Neither a sleep that went on, nor one that ended."""
    events: list[AgentSlept | AgentWoke] = []
    for number, end in enumerate(sleeps):
        events.append(slept(number))
        if end != "on":
            events.append(woke(number, "file" if end == "file" else "message"))
    state = SleepState()
    for event in events:
        state = state.slept(event) if isinstance(event, AgentSlept) else state.woke(event)
    if events:
        late = events[again % len(events)]
        assert (state.slept(late) if isinstance(late, AgentSlept) else state.woke(late)) == state

    assert (state.present is not None) == bool(sleeps and sleeps[-1] == "on")
    assert len(state.stirs) <= STIRS


@given(row=st.integers(0, 100), first=st.floats(0.001, 100.0), longest=st.floats(100.0, 86_400.0))
def test_each_sleep_of_a_row_is_twice_as_long_up_to_the_longest(row: int, first: float, longest: float) -> None:
    """And none is longer."""
    settings = SleepSettings(first=first, longest=longest)

    here, there = (length(SleepState(row=row + more), settings) for more in (0, 1))
    assert there == min(2 * here, longest)


def test_stirs_of_the_future_do_not_count() -> None:
    """They were written before the clock was set back; those of more than an hour ago are over."""
    times = tuple(NOON + timedelta(minutes=number) for number in range(STIRS))

    assert not stirs_at_once(SleepState(stirs=times), NOON + timedelta(minutes=10))
    assert stirs_at_once(SleepState(stirs=times), NOON - timedelta(minutes=1))
    assert stirs_at_once(SleepState(stirs=times), NOON + timedelta(minutes=61))
