"""The errors of task groups: one of ours instead of a group of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from conch.errors import ConchError, FencedError


@contextmanager
def ungrouped() -> Iterator[None]:
    """Raises one ConchError instead of a group that holds nothing else: of several the first that is no FencedError,
    as another copy that takes over explains none of the others. Any other group is raised as it is.

    With `except*` a group would come out again: up to Python 3.11.3 what is raised there is wrapped. And up to Python
    3.12 a group leaves a request to cancel on the task that waited for it; with that on it, up to Python 3.11.3, no
    `asyncio.timeout` of the task ends in TimeoutError any more. So it is taken back.
    """
    task = asyncio.current_task()
    assert task is not None
    requests = task.cancelling()
    try:
        yield
    except ExceptionGroup as group:
        while task.cancelling() > requests:
            task.uncancel()
        _, others = group.split(ConchError)
        if others is not None:
            raise
        errors = list(_leaves(group))
        raise next((error for error in errors if not isinstance(error, FencedError)), errors[0]) from None


def innermost(error: BaseException) -> BaseException:
    """The exception that made a TaskGroup fail."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
