"""Which form of loading adapters an endpoint has: by the setting `mind.adapters`, else by what it says of itself."""

from __future__ import annotations

from typing import Final

from conch.config import SERVED, OneMindSettings
from conch.errors import ConfigError
from conch.serving.api import EngineApi
from conch.serving.named import NamedServing
from conch.serving.protocol import AdapterServing
from conch.serving.sglang import SGLangServing
from conch.serving.vllm import VllmServing

_FORMS: Final[dict[str, type[VllmServing] | type[SGLangServing] | type[NamedServing]]] = {
    "vllm": VllmServing,
    "sglang": SGLangServing,
    "named": NamedServing,
}


async def adapter_serving(settings: OneMindSettings, section: str = "mind") -> AdapterServing:
    """The serving of the endpoint of these settings, with `settings.model` as its base; the caller closes it.

    `settings`: of a mind of the kind openai, or of an engine of Conch with the address at which it listens. `auto`: the
    engines of Conch speak vLLM's form; another endpoint is asked for its models, whose owner is `vllm` or `sglang`
    there, and is `named` otherwise. Raises ConfigError for an address that cannot be used or a mind without a model,
    ServingError for an endpoint that is asked and does not answer.
    """
    if settings.kind != "openai" and settings.kind not in SERVED:
        raise ConfigError(f"{section}.kind {settings.kind} serves no adapters: take openai, local or transformers")
    api = EngineApi(settings.base_url, settings.api_key, section)
    form: str = settings.adapters
    if form == "auto":
        try:
            form = "vllm" if settings.kind in SERVED else await _found(api)
        except BaseException:
            await api.aclose()
            raise
    return _FORMS[form](api, settings.model)


async def _found(api: EngineApi) -> str:
    owners = set((await api.models() or {}).values())
    return next((form for form in ("vllm", "sglang") if form in owners), "named")
