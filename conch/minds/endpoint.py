"""A client for OpenAI-compatible chat completions over HTTP: one streamed request, read to its end within bounds."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import cast

import httpx2
from pydantic import SecretStr

from conch.clients import http_client
from conch.errors import ConfigError, ModelError
from conch.minds.dialect import REFUSED, RequestForm
from conch.text import safe_text
from conch_schemas import JsonObject, Usage

MAX_REPLY = 1024 * 1024
"""Most characters of a reply."""
MAX_REFUSAL = 1000
"""Most characters of a refusal that are kept."""
MAX_BODY = 4 * MAX_REPLY
"""Most bytes that are read of a body that is not streamed."""
MAX_STREAM = 64 * MAX_REPLY
"""Most bytes of a stream: an event with a few characters takes some hundred bytes."""
MAX_SILENT = 10_000
"""Most consecutive lines of a stream without content, such as keep-alive comments."""
SHOWN_BODY = 4096
"""Most bytes that are read of an error response, to quote its beginning."""
CONNECT_SECONDS = 10.0
"""Longest wait for a connection, in seconds; the next attempt may use another address."""
CALLS = 64
"""Concurrent requests of all minds in a process, one connection each; further ones wait for a slot."""
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Temporary HTTP statuses: the request is retried."""

_ADVICE = {
    400: "the endpoint refuses the request",
    401: "the endpoint does not accept the key: check {0}.api_key",
    403: "the endpoint does not allow this key to do that: check {0}.api_key and {0}.model",
    404: "there is no such address or model: check {0}.base_url (up to and with /v1) and {0}.model",
}

_OTHER_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""The beginning of an address that no endpoint has, such as file: or data:."""
_TOO_LONG = re.compile(r"context[_ ](?:length|size|window)|max_model_len|(?:prompt|input) is too long", re.IGNORECASE)
"""How an endpoint says that a prompt does not fit: OpenAI, vLLM and LiteLLM; llama.cpp; others."""


class TransientError(Exception):
    """A temporary failure before the reply began. `after`: seconds that the endpoint asked to wait. `status`: its HTTP
    status, where it had one."""

    def __init__(
        self, message: str, after: float | None = None, *, unreachable: bool = False, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.after = after
        self.status = status
        self.unreachable = unreachable


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds to wait that a Retry-After header asks for (a number of seconds or an HTTP date), at least 0.

    None where there is none or it is malformed.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    return max(0.0, seconds) if seconds < float("inf") else None


@dataclass
class StreamedReply:
    """A reply that grows chunk by chunk."""

    parts: list[str] = field(default_factory=list)
    size: int = 0
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    refusal: str = ""
    """What the model said when it refused, where the endpoint tells that apart."""
    call: tuple[str, str] | None = None
    """The first call of a tool: its name, and its arguments as JSON text."""
    reasoned: int = 0
    """Characters of reasoning that came beside the reply."""
    counted: bool = False
    """Whether the endpoint counted the tokens."""
    cached: int = 0
    """Tokens of the prompt that the endpoint had in its cache, where it says so."""
    logprob: float | None = None
    """Sum of the log probabilities of its tokens, where the endpoint reports them."""

    @property
    def so_far(self) -> str:
        """The reply's text as far as it has come, else the call of a tool in it; without reasoning beside it."""
        return "".join(self.parts) or " ".join(self.call or ())

    def take(self, chunk: JsonObject, key: str) -> None:
        """Append one chunk (`key` delta) or a whole answer (`key` message). Raises ModelError for one that is too long.

        Anything that is not shaped like a completion raises TypeError, AttributeError or ValueError.
        """
        if isinstance(chunk.get("model"), str) and chunk["model"]:
            self.model = chunk["model"][:200]
        if chunk.get("usage"):
            counts = chunk["usage"]
            self.counted = bool(counts.get("prompt_tokens"))
            self.cached = max(0, int((counts.get("prompt_tokens_details") or {}).get("cached_tokens") or 0))
            self.usage = Usage(
                input_tokens=counts.get("prompt_tokens") or 0, output_tokens=counts.get("completion_tokens") or 0
            )
        for choice in chunk.get("choices") or ():
            if choice.get("index") in (0, None):  # other choices were not requested
                said = choice.get(key) or {}
                self._beside(said)
                self._add(said.get("content"))
                for call in said.get("tool_calls") or ():
                    self._called(call)
                self.finish_reason = choice.get("finish_reason") or self.finish_reason
                for token in (choice.get("logprobs") or {}).get("content") or ():
                    self.logprob = (self.logprob or 0.0) + float(str(token.get("logprob")))

    def _beside(self, said: JsonObject) -> None:
        """Take what comes beside the content: reasoning by either of its names, and the words of a refusal."""
        reasoning, refusal = said.get("reasoning_content") or said.get("reasoning"), said.get("refusal")
        if isinstance(reasoning, str):
            self.reasoned += len(reasoning)
        if isinstance(refusal, str):
            self.refusal = (self.refusal + refusal)[:MAX_REFUSAL]
        if self.reasoned > MAX_REPLY:
            raise ModelError(f"the endpoint's reasoning goes on past {MAX_REPLY} characters; it was left there")

    def _called(self, call: JsonObject) -> None:
        """Append a part of the first call of a tool; others were not asked for."""
        if call.get("index") not in (0, None):
            return
        part, (name, arguments) = call.get("function") or {}, self.call or ("", "")
        more = part.get("arguments") or ""
        if not isinstance(more, str) or not isinstance(part.get("name") or "", str):
            raise TypeError("a call is no text")
        if "index" in call or self.call is None:  # in an answer that is whole, calls have no index
            self.call = (name + (part.get("name") or ""), arguments + more)
            self._bound(len(more))

    def _add(self, content: object) -> None:
        if content is None:  # a chunk with only a role, a tool call or reasoning
            return
        if not isinstance(content, str):
            raise TypeError("content is no text")
        self.parts.append(content)
        self._bound(len(content))

    def _bound(self, more: int) -> None:
        self.size += more
        if self.size > MAX_REPLY:
            raise ModelError(f"the endpoint's reply goes on past {MAX_REPLY} characters; it was left there")


class ConnectionPool:
    """The connections to an endpoint, shared by all minds of a process. The caller that makes it closes it."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(CALLS)
        self.forms: dict[tuple[str, str], RequestForm] = {}
        """By address and model: the form of a request that it takes, where that is not the plain one."""
        self._client: httpx2.AsyncClient | None = None

    def client(self, url: httpx2.URL, key: str) -> httpx2.AsyncClient:
        """The shared client, made with the first mind's address and key. Raises ClientEnvironmentError."""
        if self._client is None:
            headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
            if key:
                headers["authorization"] = f"Bearer {key}"
            # No read timeout: a model may think for long before its first word. The deadline covers it.
            timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
            limits = httpx2.Limits(max_connections=CALLS, max_keepalive_connections=CALLS)
            self._client = http_client(url, headers, timeout, limits)
        return self._client

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


class ChatEndpoint:
    """The resource `<base_url>/chat/completions`. The key is in no error and no log line."""

    def __init__(self, base_url: str, key: SecretStr | None, line: ConnectionPool, *, section: str) -> None:
        """`section`: the section of these settings (`mind`), for error messages. Raises ConfigError for an address or a
        key that cannot be used, ClientEnvironmentError for a proxy or certificates of the environment."""
        self._line, self._section = line, section
        self._key = key.get_secret_value() if key else ""
        if not (self._key.isascii() and (self._key.isprintable() or not self._key)):
            raise ConfigError(f"{section}.api_key holds a character that cannot be sent (a line end?)")
        self._url = _address(base_url, section)
        self.where = f"{self._url.scheme}://{self._url.netloc.decode()}{self._url.path}"
        """The address, without secrets."""
        self._line.client(self._url, self._key)  # what keeps it from being made is known before the first request

    async def once(self, body: bytes, heard: Callable[[StreamedReply], None] = lambda _: None) -> StreamedReply:
        """The complete reply to one request. `heard` is called with the reply so far, at every part of it.

        Raises TransientError for a temporary failure, ModelError for all others.
        """
        begun = False
        try:
            async with self._line.client(self._url, self._key).stream("POST", self._url, content=body) as response:
                await self._refuse(response)
                begun = True
                return await self._read(response, heard)
        # `from None` throughout: httpx2's exceptions hold the request, and with it the key.
        except httpx2.UnsupportedProtocol:
            raise ModelError(f"{self.where} is no http:// or https:// address", fatal=True) from None
        except httpx2.HTTPError as error:
            what = self._shown(str(error)) or type(error).__name__
            if begun:
                raise ModelError(f"{self.where} broke off its reply: {what}") from None
            raise TransientError(f"{self.where} cannot be reached: {what}", unreachable=True) from None

    async def _refuse(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status == 200:
            return
        body = await _some(response, 64 * 1024)
        said = self._shown(_error_in(body))
        sentence = f"{self.where} answered {status}" + (f": {said}" if said else "")
        if 300 <= status < 400:
            there = self._shown(response.headers.get("location", "")) or "another address"
            instead = "" if _OTHER_SCHEME.match(there) else f" (if it is meant, set {self._section}.base_url to it)"
            raise TransientError(
                f"{sentence}: a redirect to {there}, which is not followed, as the key would go along{instead}"
            )
        if status in RETRIED:
            after = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
            raise TransientError(sentence, after, status=status)
        advice = _ADVICE.get(status, "the endpoint cannot be used like this: check {0}.base_url").format(self._section)
        if status in REFUSED and _TOO_LONG.search(body):
            advice = (
                f"the prompt does not fit into the model's context: set {self._section}.context_window to its size, or "
                f"{self._section}.prompt_tokens to less"
            )
        raise ModelError(f"{sentence} ({advice})", fatal=status < 500, status=status, detail=self._without_key(body))

    async def _read(self, response: httpx2.Response, heard: Callable[[StreamedReply], None]) -> StreamedReply:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        reply = StreamedReply()
        if kind == "text/event-stream":
            async for data in _data(response, self.where):
                self._take(reply, data, "delta")
                heard(reply)
        elif kind == "application/json":  # the endpoint does not support streaming
            self._take(reply, await _some(response, MAX_BODY), "message")
        else:
            begins = self._shown(await _some(response, SHOWN_BODY))
            raise ModelError(
                f"{self.where} answered 200 with {self._shown(kind) or 'no content type'}, not with a completion; it "
                f"begins: {begins or 'nothing'} (check {self._section}.base_url, up to and with /v1)",
                fatal=True,
            )
        if reply.finish_reason is None:
            raise ModelError(f"{self.where} ended its reply without a finish_reason: it is not whole")
        return reply

    def _take(self, reply: StreamedReply, data: str, key: str) -> None:
        try:
            chunk = json.loads(data)
            if chunk.get("error"):
                raise ModelError(f"{self.where} reported an error in its reply: {self._shown(_error_in(data))}")
            reply.take(chunk, key)
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise ModelError(f"{self.where} sent what is no completion: {self._shown(data)[:80]}") from None

    def _shown(self, text: str) -> str:
        """At most 300 characters of `text` on one line, without control characters and without the key."""
        return safe_text(self._without_key(text), one_line=True)[:300]

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def _address(base_url: str, section: str) -> httpx2.URL:
    try:
        url = httpx2.URL(base_url.rstrip("/") + "/chat/completions")
    except httpx2.InvalidURL as error:
        raise ConfigError(f"{section}.base_url is no address: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"{section}.base_url must start with http:// or https://, got {base_url!r}")
    return url


class _BoundedStream:
    """The text of an event stream, with limits on its total length and on the length of silence between two events."""

    def __init__(self, response: httpx2.Response, where: str) -> None:
        self.headers, self.request = response.headers, response.request
        self._response, self._where = response, where
        self._size, self.silent = 0, 0

    async def aiter_text(self) -> AsyncIterator[str]:
        """The text as it arrives. Raises ModelError beyond a limit."""
        async for text in self._response.aiter_text():
            self._size += len(text)
            self.silent += text.count("\n") + text.count("\r")
            if self._size > MAX_STREAM:
                raise ModelError(f"the reply of {self._where} goes on past {MAX_STREAM} bytes; it was left there")
            yield text  # each event in it sets `silent` to 0
            if self.silent > MAX_SILENT:
                raise ModelError(f"{self._where} sent {self.silent} lines without a word; it was left there")


async def _data(response: httpx2.Response, where: str) -> AsyncIterator[str]:
    """The data of each server-sent event, up to `[DONE]` or the end. Raises ModelError for an endless stream."""
    text = _BoundedStream(response, where)
    async for event in httpx2.EventSource(cast(httpx2.Response, text), max_event_size=MAX_BODY):
        if event.data == "[DONE]":
            return
        if event.data:
            text.silent = 0
            yield event.data


async def _some(response: httpx2.Response, limit: int) -> str:
    """At most `limit` bytes of the body, as text."""
    found = bytearray()
    async for part in response.aiter_bytes():
        found += part
        if len(found) >= limit:
            break
    return bytes(found[:limit]).decode("utf-8", "replace")


def _error_in(body: str) -> str:
    """The message of an error object `{"error": {"message": …}}`, otherwise the body unchanged."""
    try:
        error = json.loads(body)["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, TypeError, KeyError, RecursionError):
        return body
