"""Coroutines that run at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.tasks import concurrently, race
from tests.tasks.scripts import SCRIPTS, Played, Script, called

CANCELLED_AT = st.lists(st.integers(0, 8), max_size=3)


@given(st.lists(SCRIPTS, max_size=8), st.integers(1, 5), CANCELLED_AT)
def test_calls_are_bounded_and_end_with_their_caller(
    scripts: Sequence[Script], at_once: int, cancel_at: list[int]
) -> None:
    """Whenever it is cancelled and whatever fails, no call is left running, and none but the first ones have begun."""
    played = Played()

    outcome = called(
        lambda: concurrently(lambda one: played.play(one, scripts[one]), range(len(scripts)), at_once=at_once),
        cancel_at,
    )

    assert (outcome.left, played.running, outcome.logged) == (0, 0, 0)
    assert played.most <= at_once
    assert played.begun == list(range(len(played.begun)))
    assert sorted(played.ended) == played.begun


@given(st.lists(SCRIPTS, max_size=8), st.integers(1, 5), CANCELLED_AT)
def test_calls_give_their_results_their_first_error_or_a_cancellation(
    scripts: Sequence[Script], at_once: int, cancel_at: list[int]
) -> None:
    """A cancellation is never lost; without one, the first error is raised as itself, else the results are in order."""
    played = Played()

    outcome = called(
        lambda: concurrently(lambda one: played.play(one, scripts[one]), range(len(scripts)), at_once=at_once),
        cancel_at,
    )

    if outcome.was_asked:
        assert outcome.is_cancelled
    elif any(script.fails for script in scripts):
        assert outcome.error is played.errors[0]
    else:
        assert outcome.result == list(range(len(scripts)))


async def test_calls_run_side_by_side_up_to_their_bound() -> None:
    """Three calls wait for each other, and a bound of three lets all of them in."""
    together = asyncio.Barrier(3)

    async def call(item: int) -> int:
        await together.wait()
        return 10 * item

    assert await concurrently(call, [3, 1, 2], at_once=3) == [30, 10, 20]


async def test_a_call_that_is_cancelled_by_itself_ends_the_others() -> None:
    """A library that cancels the future behind one call leaves no call waiting for ever."""
    ended = asyncio.Event()

    async def call(item: int) -> None:
        try:
            if item == 0:
                await asyncio.sleep(0)
                raise asyncio.CancelledError
            await asyncio.Event().wait()
        finally:
            if item == 1:
                ended.set()

    with pytest.raises(asyncio.CancelledError):
        await concurrently(call, [0, 1])
    assert ended.is_set()


async def test_the_task_of_a_call_has_its_callers_name() -> None:
    """With the number of the call's worker: what a debugger lists shows where it belongs."""

    async def call(_: int) -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    calling = asyncio.create_task(concurrently(call, range(3), at_once=2), name="conch.test")

    assert await calling == ["conch.test.0"] * 3


@given(st.lists(SCRIPTS, min_size=1, max_size=5), CANCELLED_AT)
def test_a_race_leaves_no_contender_behind(scripts: Sequence[Script], cancel_at: list[int]) -> None:
    """However often it is cancelled, whatever fails, and however long a contender takes to end."""
    played = Played()

    outcome = called(
        lambda: race({f"conch.{place}": played.play(place, one) for place, one in enumerate(scripts)}), cancel_at
    )

    assert (outcome.left, played.running, outcome.logged) == (0, 0, 0)


@given(st.lists(SCRIPTS, min_size=1, max_size=5), CANCELLED_AT)
def test_a_race_is_won_by_the_first_and_never_swallows_a_cancellation(
    scripts: Sequence[Script], cancel_at: list[int]
) -> None:
    """Of several that end at nearly the same time a failed one counts, else the foremost."""
    played = Played()
    shortest = min(script.turns for script in scripts)
    first = [place for place, script in enumerate(scripts) if script.turns == shortest]

    outcome = called(
        lambda: race({f"conch.{place}": played.play(place, one) for place, one in enumerate(scripts)}), cancel_at
    )

    if outcome.was_asked:
        assert outcome.is_cancelled
        return
    winner = outcome.result if outcome.error is None else outcome.error.args[0]
    assert scripts[winner].turns <= shortest + 2  # the race's own task runs again two turns after the first end
    assert scripts[winner].fails == (outcome.error is not None)
    if outcome.error is None:
        assert not any(scripts[place].fails for place in first)
        assert winner <= first[0]
    else:
        assert winner <= min((place for place in first if scripts[place].fails), default=winner)


async def test_each_contender_runs_under_its_name() -> None:
    """A debugger that lists the tasks shows what is raced."""

    async def name() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    assert await race({"conch.contender": name()}) == "conch.contender"
