"""A client for OpenAI-compatible chat completions over HTTP: one streamed request, read to its end within bounds."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2
from pydantic import SecretStr

from conch.clients import http_client
from conch.errors import ConfigError, ModelError
from conch.minds.dialect import RequestForm
from conch.minds.replies.documents import ReplyDocument, ReplyDocuments
from conch.minds.replies.error_words import error_in, error_words
from conch.minds.replies.reply import MAX_REPLY, StreamedReply
from conch.text import decoded, safe_text, text_decoder

MAX_STREAM = 64 * MAX_REPLY
"""Most characters of a stream: an event with a few characters takes some hundred."""
MAX_SILENT = 10_000
"""Most consecutive lines of a stream without content, such as keep-alive comments."""
SHOWN_BODY = 4096
"""Most bytes that are read of an error response, to quote its beginning."""
CONNECT_SECONDS = 10.0
"""Longest wait for a connection, in seconds; the next attempt may use another address."""
CALLS = 64
"""Concurrent requests of all minds in a process, one connection each; further ones wait for a slot."""
OVERLOADED = frozenset({503, 524, 529})
"""Statuses of an endpoint that has too much to do: the standard's, Cloudflare's for a server that takes too long, and
Anthropic's."""
RETRIED = frozenset({408, 425, 429, 500, 502, 504, 520, 521, 522, 523}) | OVERLOADED
"""Temporary HTTP statuses, Cloudflare's among them: the request is retried."""
TOO_LARGE = frozenset({400, 413, 422, 500})
"""Statuses with which endpoints refuse a prompt that does not fit: TGI's is 422, Groq's 413, older llama.cpp's 500."""

_ADVICE = {
    400: "the endpoint refuses the request",
    401: "the endpoint does not accept the key: check {0}.api_key",
    403: "the endpoint does not allow this key to do that: check {0}.api_key and {0}.model",
    413: "the request is too large: set {0}.prompt_tokens to less",
    404: "there is no such address or model: check {0}.base_url (up to and with /v1) and {0}.model",
}

_LABELS = frozenset({"text/event-stream", "application/json"})
"""Content types of a completion: an empty body of theirs is a reply that broke off."""
_MARK_BYTES = 2
"""Bytes from which an encoding is known by its byte order mark."""
_OTHER_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""The beginning of an address that no endpoint has, such as file: or data:."""
_TOO_LONG = re.compile(
    "|".join((
        r"context[_ ](?:length|size|window|limit)|max_model_len|max_seq_len|\bn_ctx|上下文长度|超[过出]最大",
        r"(?:prompt|input|messages?|request|string)(?: token)?(?: length)?(?: is| are)? too long",
        r"(?:input|prompt) token count|too many (?:input )?tokens|input tokens exceeded|expected maxLength",
        r"exceed\w* (?:the )?(?:model )?token limit|tokens (?:\(\d+\) )?(?:has |have )?exceed",
        r"exceed\w* (?:the )?max(?:imum)?(?: allowed)?(?: input| prompt)? (?:length|tokens)",
        r"maximum (?:model|prompt|input) length|range of input length|input length limit",
        r"longer than the (?:model|maximum)|reduce the length of|`?inputs`? (?:tokens \+|must have less than)",
    )),
    re.IGNORECASE,
)  # fmt: skip
"""How endpoints say that a prompt does not fit. Of the context speak OpenAI, vLLM, SGLang, LiteLLM, llama.cpp, Ollama,
LM Studio, Mistral, DeepSeek and OpenRouter; of the input token count Gemini; of `inputs` TGI; of a prompt that is too
long Anthropic. Bedrock, Cohere, xAI, Groq, Qwen, Kimi, GLM and MiniMax have words of their own."""


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
                raise ModelError(f"{self.where} broke off its reply: {what}", unread=True) from None
            raise TransientError(f"{self.where} cannot be reached: {what}", unreachable=True) from None

    async def _refuse(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status == 200:
            return
        body = await _some(response, 64 * 1024)
        said = self._shown(error_words(body))
        sentence = f"{self.where} answered {status}" + (f": {said}" if said else "")
        if 300 <= status < 400:
            there = self._shown(response.headers.get("location", "")) or "another address"
            instead = "" if _OTHER_SCHEME.match(there) else f" (if it is meant, set {self._section}.base_url to it)"
            raise TransientError(
                f"{sentence}: a redirect to {there}, which is not followed, as the key would go along{instead}"
            )
        if status in TOO_LARGE and _TOO_LONG.search(body):
            raise ModelError(
                f"{sentence} (the prompt does not fit into the model's context: set {self._section}.context_window to "
                f"its size, or {self._section}.prompt_tokens to less)",
                fatal=True,
                status=status,
                detail=self._without_key(body),
            )
        if status in RETRIED:
            sentence += " (it is overloaded)" if status in OVERLOADED else ""
            after = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
            raise TransientError(sentence, after, status=status)
        advice = _ADVICE.get(status, "the endpoint cannot be used like this: check {0}.base_url").format(self._section)
        raise ModelError(f"{sentence} ({advice})", fatal=status < 500, status=status, detail=self._without_key(body))

    async def _read(self, response: httpx2.Response, heard: Callable[[StreamedReply], None]) -> StreamedReply:
        """The reply in a body. What counts is what the body holds: gateways label it as they like."""
        label = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        documents, reply, begins = ReplyDocuments(label), StreamedReply(), ""
        text = _BoundedText(response, self.where)
        async for part in text.parts():
            begins = begins if len(begins) >= SHOWN_BODY else begins + part[:SHOWN_BODY]
            for document in self._documents(documents.feed(part), begins):
                text.silent = 0
                self._take(reply, document)
                heard(reply)
            if documents.is_ended or documents.kind == "other":
                break
        for document in self._documents(documents.end(), begins):
            self._take(reply, document)
            heard(reply)
        if documents.kind == "other" or (documents.kind == "unknown" and label not in _LABELS):
            raise ModelError(
                f"{self.where} answered 200 with {self._shown(label) or 'no content type'}, not with a completion; it "
                f"begins: {self._shown(begins) or 'nothing'} (check {self._section}.base_url, up to and with /v1)",
                fatal=True,
                unread=True,
            )
        if documents.is_ended or (documents.kind == "json" and reply.is_message):
            reply.end()
        if reply.finish_reason is None:
            raise ModelError(f"{self.where} ended its reply without a finish_reason: it is not whole", unread=True)
        return reply

    def _documents(self, documents: Iterator[ReplyDocument], body: str) -> Iterator[ReplyDocument]:
        """The documents. Raises ModelError for data that is none; `body`: how what they are read from begins."""
        try:
            yield from documents
        except (ValueError, RecursionError) as error:
            raise self._no_completion(getattr(error, "doc", body)) from None

    def _take(self, reply: StreamedReply, document: ReplyDocument) -> None:
        if document.value is None:  # it keeps the connection alive
            return
        if (error := error_in(document)) is not None:
            raise ModelError(f"{self.where} reported an error in its reply: {self._shown(error)}", unread=True)
        try:
            reply.take(document.value)
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise self._no_completion(document.text) from None

    def _no_completion(self, text: str) -> ModelError:
        return ModelError(f"{self.where} sent what is no completion: {self._shown(text)[:80]}", unread=True)

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


class _BoundedText:
    """The text of a body, with limits on its total length and on the length of silence between two documents."""

    def __init__(self, response: httpx2.Response, where: str) -> None:
        self._response, self._where = response, where
        self.silent = 0
        """Lines since the last document."""

    async def parts(self) -> AsyncIterator[str]:
        """The text as it arrives. Raises ModelError beyond a limit."""
        decoder, begins, size = None, b"", 0
        async for data in self._response.aiter_bytes():
            if decoder is None:
                begins += data
                if len(begins) < _MARK_BYTES:
                    continue
                decoder, data = text_decoder(begins), begins
            text = decoder.decode(data)
            size += len(text)
            self.silent += text.count("\n") + text.count("\r")
            if size > MAX_STREAM:
                raise ModelError(
                    f"the reply of {self._where} goes on past {MAX_STREAM} bytes; it was left there", unread=True
                )
            yield text  # each document in it sets `silent` to 0
            if self.silent > MAX_SILENT:
                raise ModelError(
                    f"{self._where} sent {self.silent} lines without a word; it was left there", unread=True
                )
        yield decoded(begins) if decoder is None else decoder.decode(b"", final=True)


async def _some(response: httpx2.Response, limit: int) -> str:
    """At most `limit` bytes of the body, as text."""
    found = bytearray()
    async for part in response.aiter_bytes():
        found += part
        if len(found) >= limit:
            break
    return decoded(bytes(found[:limit]))
