"""Tasks that end with their owner."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.tasks import OwnedTasks, background, cancel_and_wait, uninterrupted
from tests.tasks.scripts import SCRIPTS, Played, Script, ScriptError, called

CANCELLED_AT = st.lists(st.integers(0, 8), max_size=3)


@given(st.lists(SCRIPTS, max_size=4), st.integers(0, 6), st.booleans(), CANCELLED_AT)
def test_an_owner_leaves_no_task_behind(
    scripts: Sequence[Script], turns: int, fails: bool, cancel_at: list[int]
) -> None:
    """Whether its body ends, fails or is cancelled, in the body and while the tasks end; a cancellation is not lost."""
    played = Played()

    async def own() -> str:
        async with OwnedTasks() as tasks:
            for place, script in enumerate(scripts):
                tasks.start(played.play(place, script), name=f"conch.{place}")
            for _ in range(turns):
                await asyncio.sleep(0)
            if fails:
                raise ScriptError("body")
        return "done"

    outcome = called(own, cancel_at)

    assert (outcome.left, played.running) == (0, 0)
    if outcome.was_asked:
        assert outcome.is_cancelled
    elif fails:
        assert str(outcome.error) == "body"
    else:
        assert outcome.result == "done"


async def test_a_task_that_fails_by_itself_interrupts_neither_owner_nor_sibling() -> None:
    """Its error is raised where it is awaited."""
    go_on = asyncio.Event()

    async def fail() -> None:
        raise ScriptError("alone")

    async with OwnedTasks() as tasks:
        failing = tasks.start(fail(), name="conch.failing")
        waiting = tasks.start(go_on.wait(), name="conch.waiting")
        await asyncio.wait([failing])
        go_on.set()

        assert await waiting
        with pytest.raises(ScriptError, match="alone"):
            await failing


@pytest.mark.parametrize("awaited", [True, False])
async def test_an_error_that_is_never_awaited_is_reported_by_asyncio(awaited: bool) -> None:
    """A failure of a background task is not silent, unless its owner has looked at it."""
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

    async def fail() -> None:
        raise ScriptError("unseen")

    async with background(fail(), name="conch.failing") as failing:
        await asyncio.wait([failing])
        if awaited:
            failing.exception()
    del failing
    gc.collect()

    assert [str(report["exception"]) for report in reports] == ([] if awaited else ["unseen"])


async def test_a_task_bears_its_name_and_is_let_go_at_its_end() -> None:
    """An owner that lives long does not collect the tasks that have ended."""

    async def name() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    tasks = OwnedTasks()

    assert await tasks.start(name(), name="conch.named") == "conch.named"
    await asyncio.sleep(0)
    assert not tasks.running


async def test_an_owner_that_has_ended_starts_no_task() -> None:
    """A task that comes too late would have no owner."""
    tasks = OwnedTasks()
    await tasks.close()
    await tasks.close()
    work = Played().play(0, Script(0, fails=False, last_turns=0, fails_when_cancelled=False))

    with pytest.raises(RuntimeError, match=r"conch\.late was started by an owner that has ended"):
        tasks.start(work, name="conch.late")
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


async def test_cancelling_does_not_wait_and_is_not_the_end() -> None:
    """After it, the owner starts tasks again."""
    tasks, forever = OwnedTasks(), asyncio.Event()
    first = tasks.start(forever.wait(), name="conch.first")

    tasks.cancel()
    second = tasks.start(forever.wait(), name="conch.second")
    await asyncio.wait([first])

    assert first.cancelled()
    assert not second.done()
    await tasks.close()
    assert second.cancelled()


async def test_background_work_ends_with_the_body() -> None:
    """It is cancelled and has ended where the body is left."""
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    async with background(work(), name="conch.work") as working:
        await asyncio.sleep(0)

    assert ended.is_set()
    assert working.cancelled()


@given(st.lists(SCRIPTS, max_size=4), st.integers(0, 5), CANCELLED_AT)
def test_tasks_that_are_cancelled_have_ended_when_it_returns(
    scripts: Sequence[Script], turns: int, cancel_at: list[int]
) -> None:
    """Those that had ended keep their outcome; a cancellation of the caller waits for the others and is raised then."""
    played = Played()
    tasks: list[asyncio.Task[int]] = []
    done: list[asyncio.Task[int]] = []

    async def end() -> None:
        for place, script in enumerate(scripts):
            tasks.append(asyncio.create_task(played.play(place, script)))
        try:
            for _ in range(turns):
                await asyncio.sleep(0)
        finally:
            done.extend(task for task in tasks if task.done())
            await cancel_and_wait(*tasks)

    outcome = called(end, cancel_at)

    assert (outcome.left, played.running) == (0, 0)
    assert all(task.done() for task in tasks)
    assert not any(task.cancelled() for task in done)
    assert outcome.is_cancelled == outcome.was_asked


@given(SCRIPTS, CANCELLED_AT)
def test_uninterrupted_work_runs_to_its_end(script: Script, cancel_at: list[int]) -> None:
    """However often its caller is cancelled: the cancellation is raised behind the end of the work."""
    played = Played()

    outcome = called(lambda: uninterrupted(played.play(7, script), name="conch.work"), cancel_at)

    assert (outcome.left, played.running, outcome.logged) == (0, 0, 0)
    assert len(played.errors) == (script.fails and played.begun == [7])
    if outcome.was_asked:
        assert outcome.is_cancelled
    elif script.fails:
        assert outcome.error is played.errors[0]
    else:
        assert outcome.result == 7
