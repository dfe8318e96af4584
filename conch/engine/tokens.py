"""Counts tokens with a model's own tokenizer, where its endpoint is a server of llama.cpp: the resource /tokenize."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import httpx2
from pydantic import SecretStr

from conch.clients import http_client
from conch.errors import ConfigError
from conch.log import get_logger

log = get_logger(__name__)

REMEMBERED: Final = 4096
"""Texts whose counts are remembered: the sections of some hundred prompts."""
SECONDS: Final = 2.0
"""Longest wait for all counts of one prompt, in seconds. llama.cpp counts 10,000 tokens in about 10 ms."""
AWAY_SECONDS: Final = 30.0
"""Seconds for which an endpoint that did not answer is not asked again."""


class TokenCounter:
    """Token counts of texts, without the tokens that a chat template adds. One serves all agents of a process.

    A text is asked for once; REMEMBERED counts are kept, by a digest of the text. An endpoint that has no such resource
    is not asked again, one that is away not for AWAY_SECONDS. No error of it is raised: without counts, the estimate
    holds. A cancelled count leaves nothing behind.
    """

    def __init__(self, base_url: str, key: SecretStr | None) -> None:
        """`base_url`: as in `mind.base_url`. Raises ConfigError for one that is no address,
        ClientEnvironmentError."""
        try:
            url = httpx2.URL(base_url.rstrip("/").removesuffix("/v1") + "/tokenize")
        except httpx2.InvalidURL as error:
            raise ConfigError(f"mind.base_url is no address: {error}") from None
        headers = {"authorization": f"Bearer {key.get_secret_value()}"} if key is not None else {}
        self._url = url
        self._client = http_client(url, headers, SECONDS)
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._lacks, self._away_until = False, 0.0
        self.scale = 1.0
        """Tokens by the estimate for each token that was counted, of the last prompt."""

    async def counts(self, texts: Sequence[str]) -> tuple[int, ...] | None:
        """The tokens of each text; None where the endpoint does not count them now."""
        if self._lacks or time.monotonic() < self._away_until:
            return None
        try:
            async with asyncio.timeout(SECONDS):
                return tuple([await self._count(text) for text in texts])
        except httpx2.HTTPStatusError as refusal:
            self._lacks = refusal.response.status_code < 500
        except (TypeError, ValueError, KeyError):
            self._lacks = True
        except (httpx2.HTTPError, TimeoutError):
            pass
        self._away_until = time.monotonic() + AWAY_SECONDS
        log.info("prompt.tokens_estimated", endpoint=self._url.host, no_tokenizer=self._lacks)
        return None

    async def _count(self, text: str) -> int:
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        answer = await self._client.post(self._url, json={"content": text.encode("utf-8", "replace").decode()})
        answer.raise_for_status()
        self._known[key] = len(list(answer.json()["tokens"]))
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return self._known[key]

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
        await self._client.aclose()
