"""Calls of the store, made in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from conch.tasks import uninterrupted

T = TypeVar("T")


class StoreThread:
    """Makes one call of the store at a time, in a thread: a slow disk does not hold up the event loop."""

    def __init__(self) -> None:
        self._working = asyncio.Lock()

    async def run(self, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """The call's result. Raises what the call raises.

        Cancelled, it waits for the thread: SQLite crashes where another thread closes what this one still uses.
        """
        async with self._working:
            return await uninterrupted(asyncio.to_thread(call, *arguments, **named), name="conch.store.call")
