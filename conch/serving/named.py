"""Adapters that an operator has loaded: any OpenAI-compatible endpoint."""

from __future__ import annotations

from conch.errors import ServingError
from conch.serving.api import EngineApi
from conch.serving.protocol import PREFIX, AdapterFiles


class NamedServing:
    """An endpoint at which an operator loads adapters under their served names. Nothing is loaded or unloaded here."""

    def __init__(self, api: EngineApi, base: str) -> None:
        self._api, self.base = api, base

    async def ensure(self, adapter: AdapterFiles) -> str:
        """Its name, where the endpoint lists it, or lists no models at all: then only the probe can tell.

        Raises ServingError with what the operator has to load.
        """
        listed = await self._api.models()
        if listed is not None and adapter.name not in listed:
            raise ServingError(
                f"{self._api.where} has no model {adapter.name}: load the adapter in {adapter.directory} there under "
                "that name",
                status=404,
            )
        return adapter.name

    async def release(self, digest: str) -> None:
        """Does nothing: the operator unloads it."""

    async def names(self) -> frozenset[str]:
        """Those of `GET /v1/models` that begin as names of Conch do; none where there is no such list."""
        return frozenset(name for name in await self._api.models() or () if name.startswith(PREFIX))

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
        await self._api.aclose()
