"""Ending what is awaited from outside."""

from __future__ import annotations

import asyncio

import pytest

from conch.cycle.hosting.interrupt import Interrupt


async def slowly(log: list[str]) -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        log.append("cancelled")
        raise
    return "late"


async def at_once() -> str:
    return "at once"


async def test_what_is_awaited_ends_with_the_error() -> None:
    """The work is cancelled, the error comes out, and whoever awaited it is not cancelled."""
    interrupt, log = Interrupt(), list[str]()
    task = asyncio.create_task(interrupt.around(slowly(log)))
    await asyncio.sleep(0)

    interrupt.end(ValueError("enough"))
    interrupt.end(ValueError("too late"))

    with pytest.raises(ValueError, match="enough"):
        await task
    assert log == ["cancelled"]
    await asyncio.sleep(0)  # a cancellation that was left over would come out here


async def test_afterwards_only_what_comes_at_once_comes() -> None:
    """What would have to be waited for is ended as well."""
    interrupt = Interrupt()
    interrupt.end(ValueError)

    assert await interrupt.around(at_once()) == "at once"
    with pytest.raises(ValueError):
        await interrupt.around(slowly([]))


async def test_one_inside_the_other_each_has_its_own_error() -> None:
    """The outer one ends both, the inner one itself alone."""
    outer, inner = Interrupt(), Interrupt()

    async def both() -> str:
        try:
            return await inner.around(slowly([]))
        except KeyError:
            return "the inner one"

    task = asyncio.create_task(outer.around(both()))
    await asyncio.sleep(0)
    inner.end(KeyError)
    assert await task == "the inner one"

    second = asyncio.create_task(Interrupt().around(outer.around(slowly([]))))
    await asyncio.sleep(0)
    outer.end(LookupError("the outer one"))
    with pytest.raises(LookupError, match="the outer one"):
        await second


async def test_a_timeout_of_the_work_is_no_end() -> None:
    """What the work raises comes out as itself."""

    async def times_out() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await Interrupt().around(times_out())


async def test_a_cancellation_from_outside_is_one() -> None:
    """Whoever cancels the task gets a cancelled task."""
    task = asyncio.create_task(Interrupt().around(slowly([])))
    await asyncio.sleep(0)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
