"""Adapters of a server of SGLang."""

from __future__ import annotations

from conch.serving.api import EngineAnswer, EngineApi
from conch.serving.protocol import PREFIX, AdapterFiles, served_name

_ADVICE = "start SGLang with --enable-lora, --max-lora-rank and --lora-target-modules all, or set {0}.adapters: named"


class SGLangServing:
    """`POST /load_lora_adapter` and `/unload_lora_adapter`, as SGLang has them.

    A request names an adapter behind the base: `base:conch-0123456789abcdef`.
    """

    def __init__(self, api: EngineApi, base: str) -> None:
        self._api, self.base = api, base

    async def ensure(self, adapter: AdapterFiles) -> str:
        """Load it; one that is loaded already stays. Raises ServingError."""
        asked = f"{self.base}:{adapter.name}"
        if adapter.name in await self.names():
            return asked
        answer = await self._api.post(
            "/load_lora_adapter", {"lora_name": adapter.name, "lora_path": str(adapter.directory)}
        )
        if _is_done(answer) or "already" in answer.message:  # some versions do not list adapters
            return asked
        raise self._api.refused(
            f"the request to load the adapter {adapter.name}", answer, self._advice if not answer.message else ""
        )

    async def release(self, digest: str) -> None:
        """Unload it. Raises ServingError."""
        name = served_name(digest)
        answer = await self._api.post("/unload_lora_adapter", {"lora_name": name})
        if _is_done(answer) or (answer.message and answer.status < 500 and name not in await self.names()):
            return
        raise self._api.refused(
            f"the request to unload the adapter {name}", answer, self._advice if not answer.message else ""
        )

    async def names(self) -> frozenset[str]:
        """Those of `GET /v1/models` that begin as names of Conch do, with or without the base before them."""
        listed = {name.removeprefix(f"{self.base}:") for name in await self._api.models() or ()}
        return frozenset(name for name in listed if name.startswith(PREFIX))

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
        await self._api.aclose()

    @property
    def _advice(self) -> str:
        return _ADVICE.format(self._api.section)


def _is_done(answer: EngineAnswer) -> bool:
    """Whether it succeeded: SGLang says so in the document too."""
    told = answer.document.get("success", True) if isinstance(answer.document, dict) else True
    return answer.status == 200 and told is True
