"""Ends awaited work with a chosen exception from outside, without a task per call."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupt:
    """Ends all work awaited through `around`, now and from then on."""

    def __init__(self) -> None:
        self._error: BaseException | type[BaseException] | None = None
        self._scopes: set[asyncio.Timeout] = set()

    def end(self, error: BaseException | type[BaseException]) -> None:
        """Cancel the awaited work and raise `error` in its place. A second call changes nothing."""
        if self._error is None:
            self._error = error
            for scope in self._scopes:
                scope.reschedule(asyncio.get_running_loop().time())

    async def around(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. After `end`, now or earlier (unless the result is there at once): raises its error."""
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scopes.add(scope)
                if self._error is not None:
                    scope.reschedule(asyncio.get_running_loop().time())
                return await work
        except TimeoutError:
            if self._error is not None and scope.expired():
                raise self._error from None
            raise
        finally:
            self._scopes.discard(scope)
