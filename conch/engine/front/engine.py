"""What a front needs of an engine: it loads adapters by name, and replies with one of them or none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from starlette.types import ASGIApp

from conch_schemas import JsonObject

MOST_ADAPTERS = 8
"""Most adapters that are loaded at once; each takes memory, and a few lineages have an active and a previous one."""


class EngineRefusalError(Exception):
    """The engine refuses a request. `status`: the HTTP status for that; the message is one sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class AdapterEngine(Protocol):
    """An engine that serves a base and adapters of it."""

    base: str
    """The base's name."""

    @property
    def names(self) -> Sequence[str]:
        """The adapters that are loaded, in the order of loading."""
        ...

    async def load(self, name: str, directory: Path) -> None:
        """Load the adapter in a directory under a name that is not loaded. Replies meanwhile go on. Raises
        EngineRefusalError."""
        ...

    async def unload(self, name: str) -> None:
        """Reply no more under this name; replies that are being decoded go on."""
        ...

    def chat(self, asked: JsonObject, adapter: str | None) -> ASGIApp:
        """The response to a chat completion's request, by this adapter that is loaded; None: by the base. Raises
        EngineRefusalError."""
        ...

    def other(self, method: str, path: str, body: bytes) -> ASGIApp:
        """The response to another request of the engine's own. Raises EngineRefusalError."""
        ...
