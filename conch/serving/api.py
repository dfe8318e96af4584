"""Requests to an engine beside chat completions: small JSON documents, bounded in time and size."""

from __future__ import annotations

import asyncio
import json
from typing import Final

import httpx2
from pydantic import JsonValue, SecretStr

from conch.clients import http_client
from conch.errors import ConfigError, ServingError
from conch.minds import StreamedReply, words_in
from conch.text import decoded, safe_text

LIST_SECONDS: Final = 10.0
"""Longest wait for the list of models."""
LOAD_SECONDS: Final = 180.0
"""Longest wait until an engine has loaded an adapter. llama.cpp's second server has to read the base once more."""
MOST_BYTES: Final = 1024 * 1024
"""Most bytes of an answer that are read."""
SHOWN: Final = 300
"""Most characters of an answer that an error quotes."""


class EngineAnswer:
    """An answer of an engine: its status, its document and its words."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        try:
            self.document: JsonValue = json.loads(text)
        except (ValueError, RecursionError):
            self.document = None
        self.message = self._message(text)
        """What it says of an error, on one line; empty for an answer without words, as of a router without the path."""

    def reply(self) -> StreamedReply:
        """The completion that it is. Raises TypeError, AttributeError, ValueError or ModelError where it is none."""
        found = StreamedReply()
        found.take(self.document)
        return found

    def _message(self, text: str) -> str:
        said = "" if self.status in (404, 405) else text
        if self.document is not None:
            said = words_in(self.document)
        return safe_text(said, one_line=True)[:SHOWN]


class EngineApi:
    """The resources of an engine that serves an OpenAI-compatible endpoint. The key is in no error.

    Each request has a connection of its own, as behind an address several replicas may answer.
    """

    def __init__(self, base_url: str, key: SecretStr | None, section: str = "mind") -> None:
        """`base_url`: up to and with /v1; `section`: of the settings, for error messages. Raises ConfigError and
        ClientEnvironmentError."""
        whole = base_url.rstrip("/")
        root = whole.removesuffix("/v1")
        try:
            self._root = httpx2.URL(root)
        except httpx2.InvalidURL as error:
            raise ConfigError(f"{section}.base_url is no address: {error}") from None
        if self._root.scheme not in ("http", "https") or not self._root.host:
            raise ConfigError(f"{section}.base_url must start with http:// or https://, got {base_url!r}")
        self.where = f"{self._root.scheme}://{self._root.netloc.decode()}{self._root.path.rstrip('/')}"
        """The engine's address, without secrets."""
        self.section, self._prefix = section, whole.removeprefix(root)
        self._key = key.get_secret_value() if key is not None else ""
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        self._client = http_client(self._root, headers, httpx2.Timeout(None, connect=LIST_SECONDS), _ONE_EACH)

    async def post(self, path: str, body: dict[str, JsonValue]) -> EngineAnswer:
        """The answer to a POST of `body`. Raises ServingError where there is none."""
        return await self._asked("POST", path, LOAD_SECONDS, body)

    async def chat(self, body: dict[str, JsonValue], seconds: float) -> EngineAnswer:
        """The answer to a chat completion's request. Raises ServingError where there is none within `seconds`."""
        return await self._asked("POST", f"{self._prefix}/chat/completions", seconds, body)

    async def models(self) -> dict[str, str] | None:
        """The owner that the endpoint names, by the name of each model that it lists; None where it has no such list.

        Raises ServingError where it does not answer, or answers something else.
        """
        answer = await self._asked("GET", f"{self._prefix}/models", LIST_SECONDS)
        if answer.status in (404, 405, 501):
            return None
        if answer.status != 200:
            raise self.refused(f"GET {self._prefix}/models", answer)
        listed = answer.document.get("data") if isinstance(answer.document, dict) else None
        if not isinstance(listed, list):
            raise ServingError(
                f"{self.where}{self._prefix}/models lists no models: it is no OpenAI-compatible endpoint"
            )
        rows = [row for row in listed if isinstance(row, dict)]
        return {str(row.get("id", "")): str(row.get("owned_by", "")) for row in rows}

    def refused(self, what: str, answer: EngineAnswer, advice: str = "") -> ServingError:
        """The error for an answer that is no success."""
        if answer.status in (401, 403):
            advice = f"the key is not accepted: check {self.section}.api_key"
        sentence = f"{self.where} answered {answer.status} to {what}"
        sentence += f": {self._without_key(answer.message)}" if answer.message else ""
        return ServingError(
            f"{sentence} ({advice})" if advice else sentence,
            passing=answer.status >= 500 or answer.status in (408, 425, 429),
            status=answer.status,
        )

    async def aclose(self) -> None:
        """Close the connections. A second call does nothing."""
        await self._client.aclose()

    async def _asked(
        self, method: str, path: str, seconds: float, body: dict[str, JsonValue] | None = None
    ) -> EngineAnswer:
        url, found = self._root.copy_with(path=f"{self._root.path.rstrip('/')}{path}"), bytearray()
        try:
            async with asyncio.timeout(seconds), self._client.stream(method, url, json=body) as response:
                async for part in response.aiter_bytes():
                    found += part
                    if len(found) > MOST_BYTES:
                        raise ServingError(f"{self.where}{path} answers with more than {MOST_BYTES // 1024} KiB")
        # `from None`: httpx2's exceptions hold the request, and with it the key.
        except TimeoutError:
            raise ServingError(f"{self.where}{path} did not answer within {seconds:g} s", passing=True) from None
        except httpx2.HTTPError as error:
            why = self._without_key(safe_text(str(error), one_line=True))[:SHOWN] or type(error).__name__
            raise ServingError(f"{self.where} cannot be reached: {why}", passing=True) from None
        return EngineAnswer(response.status_code, decoded(bytes(found)))

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


_ONE_EACH = httpx2.Limits(max_keepalive_connections=0)
