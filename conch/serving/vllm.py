"""Adapters of a server that speaks vLLM's form of loading, as Conch's own engines do."""

from __future__ import annotations

from conch.serving.api import EngineApi
from conch.serving.protocol import PREFIX, AdapterFiles, served_name

_ADVICE = "start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, or set {0}.adapters: named"


class VllmServing:
    """`POST /v1/load_lora_adapter` and `/v1/unload_lora_adapter`, as vLLM has them."""

    def __init__(self, api: EngineApi, base: str) -> None:
        self._api, self.base = api, base

    async def ensure(self, adapter: AdapterFiles) -> str:
        """Load it unless it is listed. Raises ServingError."""
        if adapter.name in await self.names():
            return adapter.name
        answer = await self._api.post(
            "/v1/load_lora_adapter", {"lora_name": adapter.name, "lora_path": str(adapter.directory)}
        )
        # Another process may have loaded it meanwhile, which vLLM refuses with a sentence of each version's own.
        if answer.status == 200 or (answer.status < 500 and adapter.name in await self.names()):
            return adapter.name
        raise self._api.refused(
            f"the request to load the adapter {adapter.name}", answer, self._advice if not answer.message else ""
        )

    async def release(self, digest: str) -> None:
        """Unload it. Raises ServingError."""
        name = served_name(digest)
        answer = await self._api.post("/v1/unload_lora_adapter", {"lora_name": name})
        if answer.status == 200 or (answer.status < 500 and name not in await self.names()):
            return
        raise self._api.refused(
            f"the request to unload the adapter {name}", answer, self._advice if not answer.message else ""
        )

    async def names(self) -> frozenset[str]:
        """Those of `GET /v1/models` that begin as names of Conch do."""
        return frozenset(name for name in await self._api.models() or () if name.startswith(PREFIX))

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
        await self._api.aclose()

    @property
    def _advice(self) -> str:
        return _ADVICE.format(self._api.section)
