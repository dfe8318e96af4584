"""The adapters of a mind's engine, by the protocol that it speaks."""

from __future__ import annotations

from conch.config import OneMindSettings
from conch.errors import ServingError
from conch.minds import AskedAdapter
from conch.serving import AdapterFiles, AdapterServing, adapter_serving, probe
from conch.training import ShelvedAdapter


class ServedEngineAdapters:
    """See `ProvingEngine`. Connections are opened at the first adapter; the caller closes them."""

    def __init__(self, settings: OneMindSettings, section: str = "mind") -> None:
        """`settings`: of the mind that decides, with the address at which its engine listens."""
        self.kind, self._settings, self._section = settings.kind, settings, section
        self._opened: AdapterServing | None = None

    async def prove(self, adapter: ShelvedAdapter) -> AskedAdapter:
        """Load it where it is not loaded, and probe it. Raises ServingError, ConfigError."""
        lines = adapter.probe(self.kind)
        if not lines:
            raise ServingError(
                f"no replies of an engine {self.kind} are recorded for the adapter {adapter.digest[:12]}: its round "
                "records them"
            )
        serving = await self._serving()
        name = await serving.ensure(AdapterFiles(adapter.folder, adapter.digest))
        result = await probe(self._settings, name, serving.base, lines)
        if not result.proven:
            raise ServingError(result.why)
        return AskedAdapter(adapter.digest, name, is_echoed=result.name_echoed)

    async def release(self, digest: str) -> None:
        """Unload it. Raises ServingError."""
        if self._opened is not None:
            await self._opened.release(digest)

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def _serving(self) -> AdapterServing:
        if self._opened is None:
            self._opened = await adapter_serving(self._settings, self._section)
        return self._opened
