"""Ending what is awaited, from outside, without a task for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupt:
    """Ends all that is awaited `around` it, now and from then on."""

    def __init__(self) -> None:
        self._error: BaseException | type[BaseException] | None = None
        self._scopes: set[asyncio.Timeout] = set()

    def end(self, error: BaseException | type[BaseException]) -> None:
        """Cancel what is awaited and have `error` come out of it. The second time changes nothing."""
        if self._error is None:
            self._error = error
            for scope in self._scopes:
                scope.reschedule(asyncio.get_running_loop().time())

    async def around(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. Ended meanwhile, or before where it does not come at once: raises that error."""
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
