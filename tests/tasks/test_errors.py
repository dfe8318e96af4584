"""The errors of task groups: one of ours comes out as itself, anything else as it is."""

from __future__ import annotations

import asyncio

import pytest

from conch.errors import BusError, ConchError, FencedError, StoreError
from conch.tasks import ungrouped

ONE, OTHER, FENCED = StoreError("one"), BusError("other"), FencedError("fenced")


def group(*errors: Exception) -> ExceptionGroup[Exception]:
    """A group of these."""
    return ExceptionGroup("tasks", errors)


@pytest.mark.parametrize(
    ("raised", "comes"),
    [
        (ONE, ONE),
        (group(ONE), ONE),
        (group(group(group(ONE))), ONE),
        (group(ONE, OTHER), ONE),
        (group(FENCED, group(OTHER)), OTHER),
        (group(FENCED), FENCED),
    ],
)
async def test_an_error_of_ours_comes_alone(raised: Exception, comes: ConchError) -> None:
    """However deep; of several the first, but one that says that another copy took over behind all others."""
    with pytest.raises(ConchError) as found, ungrouped():
        raise raised

    assert found.value is comes


@pytest.mark.parametrize("raised", [group(ValueError("x")), group(ONE, group(ValueError("x"))), ValueError("x")])
async def test_what_is_not_ours_is_raised_as_it_is(raised: Exception) -> None:
    """Also beside one of ours: nothing of it is lost."""
    with pytest.raises(type(raised)) as found, ungrouped():
        raise raised

    assert found.value is raised


async def test_a_limit_of_time_holds_after_a_group_that_failed() -> None:
    """A failed group's request to cancel the task that waited for it is taken back."""

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ONE

    async def waits() -> None:
        await asyncio.Event().wait()

    task = asyncio.current_task()
    assert task is not None

    async def grouped() -> None:
        with ungrouped():
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(waits())
                tasks.create_task(fails())

    with pytest.raises(StoreError):
        await grouped()

    assert task.cancelling() == 0
