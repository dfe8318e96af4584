"""The openai mind against a real HTTP server that does everything wrong in turn."""

from __future__ import annotations

import asyncio
import codecs
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import MindSettings
from conch.errors import ConfigError, ModelError
from conch.minds import Prompt, ReplyProgress
from conch.minds.endpoint import MAX_SILENT, MAX_STREAM, ConnectionPool, retry_after
from conch.minds.openai import OpenAIMind
from conch.minds.replies.reply import MAX_REPLY
from tests.serving import listening

if TYPE_CHECKING:
    from tests.conftest import Until


Asking = Callable[..., Prompt]
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
KEY = "sk-very-secret"


def head(status: int = 200, kind: str = "text/event-stream", extra: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: {kind}\r\n{extra}\r\n".encode()


def whole(status: int, body: str, kind: str = "application/json", extra: str = "") -> bytes:
    return head(status, kind, f"content-length: {len(body.encode())}\r\n{extra}") + body.encode()


def event(chunk: object) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def delta(content: object, finish_reason: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish_reason}]})


MESSAGE = '{"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}'
USAGE = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
DONE = b"data: [DONE]\n\n"
FINE = head() + delta("DO_NOTH") + delta("ING: rest", "stop") + USAGE + DONE


def giving(data: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


async def silence(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(head())
    while True:
        writer.write(delta("[" * 65536))
        await writer.drain()


@dataclass
class Endpoint:
    """A server whose answers are given in turn, the last one for ever."""

    answers: list[Answer]
    url: str = ""
    requests: list[tuple[str, Any]] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(int(line[16:]) for line in asked.lower().split("\r\n") if line.startswith("content-length: "))
        self.requests.append((asked, json.loads(await reader.readexactly(length))))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        try:
            await answer(writer)
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def mind(self, line: ConnectionPool | None = None, first_word: float | None = None, **settings: Any) -> OpenAIMind:
        plain = {"kind": "openai", "base_url": self.url, "model": "tiny", "api_key": KEY, "timeout": 20.0}
        settings = {**plain, **settings}
        return OpenAIMind(MindSettings(**settings), sleep=self.sleep, line=line, first_word=first_word)


@asynccontextmanager
async def serving(*answers: bytes | Answer) -> AsyncIterator[Endpoint]:
    """An endpoint on a free port of loopback; its unfinished answers are cancelled at the end."""
    endpoint = Endpoint([giving(answer) if isinstance(answer, bytes) else answer for answer in answers])
    async with listening(endpoint.serve) as port:
        endpoint.url = f"http://127.0.0.1:{port}/v1"
        yield endpoint


async def ask(endpoint: Endpoint, prompt: Prompt, **settings: Any) -> Any:
    mind = endpoint.mind(**settings)
    try:
        return await mind.complete(prompt)
    finally:
        await mind.close()
        await mind.close()


@pytest.fixture(autouse=True)
def no_key_in_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a test provokes, the key is in no log line."""
    caplog.set_level(logging.DEBUG)
    yield
    assert KEY not in caplog.text


async def test_a_streamed_reply_comes_whole_with_its_usage(prompt: Asking) -> None:
    """Chunks are put together; reason, tokens and milliseconds come along."""
    async with serving(FINE) as endpoint:
        reply = await ask(endpoint, prompt())

    assert (reply.text, reply.finish_reason) == ("DO_NOTHING: rest", "stop")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 3)
    assert reply.model == "tiny"
    assert reply.ms > 0


async def test_the_request_is_a_streamed_chat_completion(prompt: Asking) -> None:
    """System prompt first, the key as a bearer, the smaller of both token limits."""
    async with serving(FINE) as endpoint:
        await ask(endpoint, prompt(), max_tokens=5)

    asked, body = endpoint.requests[0]
    assert asked.startswith("POST /v1/chat/completions ")
    assert f"bearer {KEY}" in asked.lower()
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert (body["stream"], body["stream_options"], body["max_tokens"]) == (True, {"include_usage": True}, 5)


async def test_without_a_key_none_is_sent(prompt: Asking) -> None:
    """Local endpoints want no key."""
    async with serving(FINE) as endpoint:
        await ask(endpoint, prompt(), api_key=None)

    assert "authorization" not in endpoint.requests[0][0].lower()


@pytest.mark.parametrize(
    "stream",
    [
        head() + delta(None) + delta("yes", "stop") + DONE,
        head() + event({"choices": [{"delta": {"reasoning_content": "hmm"}}]}) + delta("yes", "stop") + DONE,
        head() + b": ping\n\n" + delta("yes") + delta(None, "stop") + DONE,
        head() + delta("yes", "stop"),
        head() + (delta("yes") + delta("", "stop") + DONE).replace(b"\n", b"\r\n"),
        head() + event({"choices": [{"index": 1, "delta": {"content": "no"}}]}) + delta("yes", "stop") + DONE,
        head() + delta("yes", "stop") + event({"choices": None, "usage": None}) + DONE,
        whole(200, '{"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}'),
        whole(200, '{"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "usage": {}}'),
        whole(200, '{"choices": [{"message": {"content": "yes"}}]}'),
        head() + delta("yes") + DONE,
        head() + delta("yes") + event({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        head() + codecs.BOM_UTF8 + delta("yes", "stop") + DONE,
        head() + (delta("yes", "stop") + DONE).decode().encode("utf-16"),
        head(kind="application/json") + delta("yes", "stop") + DONE,
        head(kind="text/plain; charset=iso-8859-1") + delta("yes", "stop") + DONE,
        head(kind="application/octet-stream") + b": hello\n\n" + delta("yes", "stop") + DONE,
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + delta("yes", "stop") + DONE,
        whole(200, MESSAGE, "text/event-stream"),
        whole(200, MESSAGE, "text/plain"),
        whole(200, MESSAGE, "text/html; charset=utf-8"),
        whole(200, "\ufeff" + MESSAGE),
        whole(200, "\n\n\n" + MESSAGE, ""),
        whole(200, f"[{MESSAGE}]"),
        head(kind="application/x-ndjson") + (delta("ye") + delta("s", "stop")).replace(b"data: ", b""),
        head() + (delta("yes") + delta("", "stop") + DONE).replace(b"\n", b"\r"),
        head() + (delta("ye") + delta("s", "stop") + DONE).replace(b"\n\n", b"\n").replace(b": ", b":"),
    ],
)
async def test_what_servers_do_within_the_format_is_understood(prompt: Asking, stream: bytes) -> None:
    """Null content, reasoning, comments, no [DONE], other choices, servers that do not stream, an end that is said in
    one way of several, byte order marks, labels that are wrong; tokens are estimated."""
    async with serving(stream) as endpoint:
        reply = await ask(endpoint, prompt())

    assert reply.text == "yes"
    assert reply.usage.input_tokens == 5 + 3  # of 13 and 9 bytes
    assert 1 <= reply.usage.output_tokens <= 2


async def test_a_character_split_over_two_chunks_is_put_together(prompt: Asking) -> None:
    """Halves of a surrogate pair in two chunks are one character; a lone half does no harm."""
    halves = [
        b'data: {"choices": [{"delta": {"content": "' + half + b'"}}]}\n\n' for half in (rb"\ud83d", rb"\udc1a\ud83d")
    ]
    async with serving(head() + b"".join(halves) + delta("", "stop") + DONE) as endpoint:
        reply = await ask(endpoint, prompt())

    assert reply.text == "🐚\ufffd"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (head() + delta("DO_NOTHING: ha"), "finish_reason"),
        (head() + DONE, "finish_reason"),
        (whole(200, '{"choices": []}'), "finish_reason"),
        (head(extra="content-length: 9999\r\n") + delta("DO_NOTH"), "broke off"),
        (head(extra="transfer-encoding: chunked\r\n") + b"40\r\n" + delta("x")[:20], "broke off"),
        (head() + b"data: {oops\n\n", "no completion"),
        (head() + b"data: 7\n\n", "no completion"),
        (head() + event({"choices": ["x"]}), "no completion"),
        (head() + event({"choices": [{"delta": {"content": True}}]}), "no completion"),
        (head() + event({"choices": [], "usage": {"prompt_tokens": -1}}), "finish_reason"),
        (head() + b"data: " + b"[" * 100_000 + b"\n\n", "no completion"),
        (head() + event({"error": {"message": f"out of memory {KEY}"}}), r"out of memory \*\*\*"),
        (head() + delta("half") + event({"error": "overloaded"}), "overloaded"),
        (head() + delta("half") + b'event: error\ndata: {"message": "overloaded"}\n\n', "overloaded"),
        (head() + delta("half") + b"event: error\ndata: overloaded\n\n", "overloaded"),
        (head() + event({"object": "error", "message": "overloaded", "code": 50001}), "overloaded"),
        (
            head() + event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            "Overloaded",
        ),
        (head() + delta("half", "error"), "broke off its reply: error"),
        (
            head() + event({"choices": [{"delta": {}, "error": {"code": 502, "message": "lost"}}]}),
            "error in its reply: lost",
        ),
        (
            head() + event({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}) + DONE,
            "no text that can be read",
        ),
        (head() + delta("half") + b'data: {"choices": [{"del', "no completion"),
        (head() + delta("half")[:-1], "finish_reason"),
        (whole(200, '{"error": {"message": "no such thing"}}'), "no such thing"),
        (whole(200, "{", "application/json"), "no completion"),
        (endless, str(MAX_REPLY)),
        (head() + b"data: " + b"x" * 5_000_000, "goes on past 4194304"),
    ],
)
async def test_a_reply_that_is_not_whole_is_an_error(prompt: Asking, answer: bytes | Answer, sentence: str) -> None:
    """Half a reply is never passed on as a short one; nothing of this is tried again behind the caller's back."""
    async with serving(answer) as endpoint:
        with pytest.raises(ModelError, match=sentence) as raised:
            await ask(endpoint, prompt())

    assert KEY not in str(raised.value)
    assert not raised.value.fatal
    assert raised.value.unread
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("status", [503, 524, 529])
async def test_an_endpoint_that_has_too_much_to_do_is_called_overloaded(prompt: Asking, status: int) -> None:
    """Cloudflare's page and Anthropic's error: in a sentence, not in HTML."""
    page = f"<!DOCTYPE html><html><head><title>host | {status}: A timeout occurred</title></head><body/></html>"
    async with serving(whole(status, page, "text/html", "retry-after: 60\r\n")) as endpoint:
        with pytest.raises(ModelError, match=rf"answered {status}: host \| {status}: A timeout .*overloaded") as raised:
            await ask(endpoint, prompt())

    assert "<" not in str(raised.value)
    assert not raised.value.fatal


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 520, 522, 524, 529])
async def test_what_may_pass_is_tried_again(prompt: Asking, status: int) -> None:
    """Busy and broken endpoints are asked again after growing waits."""
    busy = whole(status, '{"error": {"message": "later"}}')
    async with serving(busy, busy, FINE) as endpoint:
        reply = await ask(endpoint, prompt())

    assert reply.text == "DO_NOTHING: rest"
    assert [0.25 <= wait <= 0.5 for wait in endpoint.slept[:1]] == [True]
    assert 0.5 <= endpoint.slept[1] <= 1.0


async def test_a_connection_that_drops_before_the_answer_is_tried_again(prompt: Asking) -> None:
    """No status line came: nothing was begun."""
    async with serving(b"", FINE) as endpoint:
        reply = await ask(endpoint, prompt())

    assert reply.text == "DO_NOTHING: rest"


async def test_retry_after_is_honoured(prompt: Asking) -> None:
    """The endpoint's own seconds stand in for the back-off."""
    async with serving(whole(429, "", extra="retry-after: 3\r\n"), FINE) as endpoint:
        await ask(endpoint, prompt())

    assert endpoint.slept == [3.0]


async def test_a_retry_after_beyond_the_deadline_is_handed_to_the_caller(prompt: Asking) -> None:
    """Waiting in vain helps nobody: the error says how long to wait."""
    async with serving(whole(429, "", extra="retry-after: 3600\r\n")) as endpoint:
        with pytest.raises(ModelError, match="429") as raised:
            await ask(endpoint, prompt())

    assert raised.value.retry_after == 3600
    assert endpoint.slept == []


@pytest.mark.parametrize(
    ("status", "sentence"),
    [(400, "refuses"), (401, "mind.api_key"), (403, "mind.model"), (404, "base_url"), (422, "422")],
)
async def test_a_refusal_is_fatal_and_says_what_to_check(prompt: Asking, status: int, sentence: str) -> None:
    """Retrying cannot help; the endpoint's own words come along, without the key that it repeats."""
    async with serving(whole(status, json.dumps({"error": {"message": f"bad key {KEY}\x1b[31m"}}))) as endpoint:
        with pytest.raises(ModelError, match=sentence) as raised:
            await ask(endpoint, prompt())

    assert raised.value.fatal
    assert len(endpoint.requests) == 1
    assert KEY not in str(raised.value)
    assert "\x1b" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("kind", "body", "sentence"),
    [
        ("text/html; charset=utf-8", f"<html>\n<h1>Wel\x1bcome {KEY}</h1>", "<html> <h1>Wel�come ***</h1>"),
        ("text/plain", "pong", "pong"),
        ("", "", "nothing"),
    ],
)
async def test_an_answer_that_is_no_completion_is_said_with_how_it_begins(
    prompt: Asking, kind: str, body: str, sentence: str
) -> None:
    """Asking again will not make a completion of it: what came is said, its type and beginning, and what to check."""
    async with serving(whole(200, body, kind)) as endpoint:
        with pytest.raises(ModelError, match="answered 200") as raised:
            await ask(endpoint, prompt())

    assert raised.value.fatal
    assert len(endpoint.requests) == 1
    assert KEY not in str(raised.value)
    assert sentence in str(raised.value)
    assert "mind.base_url" in str(raised.value)
    assert kind.partition(";")[0] in str(raised.value)


@pytest.mark.parametrize(
    "noise",
    [b": ping\n\n" * 8192, b"event: x\n\nretry: 1\n\n" * 4096, b": " + b"x" * 65536 + b"\n", b"\n" * 65536],
)
async def test_a_stream_that_says_nothing_for_ever_is_left(prompt: Asking, noise: bytes) -> None:
    """Comments keep a connection alive; nothing but them is no reply, and is left long before the deadline."""
    sent = 0

    async def noisy(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(head() + delta("DO_NOTHING: sl"))
        while True:
            writer.write(noise)
            await writer.drain()
            sent += len(noise)

    async with serving(noisy) as endpoint:
        with pytest.raises(ModelError, match=r"without a word|goes on past"):
            await ask(endpoint, prompt())

    assert sent < 2 * MAX_STREAM


async def test_a_stream_of_empty_words_is_left(prompt: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deltas that hold nothing are bounded as well, by the bytes of a whole reply."""
    monkeypatch.setattr("conch.minds.endpoint.MAX_STREAM", 2**20)

    async def empty(writer: asyncio.StreamWriter) -> None:
        writer.write(head())
        while True:
            writer.write(delta("") * 1000)
            await writer.drain()

    async with serving(empty) as endpoint:
        with pytest.raises(ModelError, match="goes on past 1048576 bytes"):
            await ask(endpoint, prompt())


async def test_comments_between_words_are_no_matter(prompt: Asking) -> None:
    """What keeps a connection alive is counted from one word to the next."""
    ping = b": ping\n\n" * (MAX_SILENT // 3)
    stream = head() + ping + delta("DO_NOTH") + ping + delta("ING: rest", "stop") + ping + DONE
    async with serving(stream) as endpoint:
        reply = await ask(endpoint, prompt())

    assert reply.text == "DO_NOTHING: rest"


async def test_a_cookie_is_not_kept(prompt: Asking) -> None:
    """What an endpoint sets with one answer is not sent with the next question."""
    cookie = FINE.replace(b"\r\n\r\n", b"\r\nset-cookie: who=agent; path=/\r\n\r\n", 1)
    async with serving(cookie) as endpoint:
        mind = endpoint.mind()
        for _ in range(2):
            await mind.complete(prompt())
        await mind.close()

    assert len(endpoint.requests) == 2
    assert "cookie" not in endpoint.requests[1][0].lower()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(prompt: Asking, status: int) -> None:
    """Neither prompt nor key go where an answer points to; it is named, and tried again, as it may pass like a 502."""
    async with serving(FINE) as other, serving() as endpoint:
        there = f"location: {other.url}/chat/completions\r\n"
        endpoint.answers = [giving(whole(status, "", extra=there))]
        with pytest.raises(
            ModelError, match=rf"answered {status}: a redirect to {other.url}.*mind\.base_url"
        ) as raised:
            await ask(endpoint, prompt(), timeout=0.5)

        assert not raised.value.fatal
        endpoint.answers = [giving(whole(status, "", extra=there)), giving(FINE)]
        assert (await ask(endpoint, prompt())).text == "DO_NOTHING: rest"

    assert other.requests == []


@pytest.mark.parametrize("there", ["file:///etc/passwd", "data:text/plain,hello"])
async def test_a_redirect_to_no_endpoint_is_named_without_advice(prompt: Asking, there: str) -> None:
    """Nothing is read from it, and no setting is named for an address that no mind can have."""
    async with serving(whole(307, "", extra=f"location: {there}\r\n")) as endpoint:
        with pytest.raises(ModelError, match=f"a redirect to {there}, which is not followed") as raised:
            await ask(endpoint, prompt(), timeout=0.5)

    assert "base_url" not in str(raised.value)


@pytest.mark.parametrize("status", [400, 413, 422, 500])
@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 2048 tokens. However, your messages resulted in 3011 tokens.",
        "Your input exceeds the context window of this model",
        "request (431 tokens) exceeds the available context size (256 tokens), try increasing it",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "Unable to submit request because the input token count is 40000 but model only supports up to 32768.",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
        "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000",
        "prompt is too long: 213462 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens, which is not enough.",
        "prompt too long; exceeded max context length by 904 tokens",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        "Input is too long for requested model.",
        "ValidationException: Too many input tokens. Max input tokens: 8192, request input token count: 9279",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length",
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.",
        "Please reduce the length of the messages or completion.",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "prompt token count of 70000 exceeds the limit of 64000",
        "Your request exceeded model token limit: 8192",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
        "invalid params, context window exceeds limit",
        "Prompt exceeds max length",
        "Prompt length 5000 is greater than max_seq_len 4096",
        "Input length 5000 exceeds the maximum allowed input length of 4096 tokens.",
    ],
)
async def test_a_prompt_that_does_not_fit_names_the_setting(prompt: Asking, said: str, status: int) -> None:
    """In the words of each endpoint, with what to set: the run ends, as the next prompt would not fit either."""
    bodies = {
        400: [{"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}],
        413: {"message": said},
        422: {"error": said, "error_type": "validation"},
        500: {"error": {"message": said}},
    }
    async with serving(whole(status, json.dumps(bodies[status]))) as endpoint:
        with pytest.raises(ModelError, match=r"does not fit.*mind\.context_window") as raised:
            await ask(endpoint, prompt())

    assert said[:200] in str(raised.value)
    assert "{" not in str(raised.value)
    assert raised.value.fatal
    assert len(endpoint.requests) == 1


PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the environment's proxy, and who is reached without it."""

    def proxied(proxy: Endpoint, no_proxy: str = "") -> None:
        for name in PROXIES:
            monkeypatch.delenv(name, raising=False)
        for name in ("HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("NO_PROXY", no_proxy)

    return proxied


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost"])
async def test_this_machine_is_reached_without_a_proxy(prompt: Asking, proxied: Callable[..., None], host: str) -> None:
    """A proxy of the environment is given neither prompt nor key of what stays on this machine."""
    async with serving(whole(502, "")) as proxy, serving(FINE) as endpoint:
        proxied(proxy)

        reply = await ask(endpoint, prompt(), base_url=endpoint.url.replace("127.0.0.1", host))

    assert reply.text == "DO_NOTHING: rest"
    assert proxy.requests == []


async def test_other_machines_are_reached_as_the_environment_says(prompt: Asking, proxied: Callable[..., None]) -> None:
    """By the proxy that a person set, but for those that NO_PROXY names."""
    async with serving(FINE) as proxy:
        proxied(proxy)
        reply = await ask(proxy, prompt(), base_url="http://model.invalid/v1")
        proxied(proxy, no_proxy="model.invalid")
        with pytest.raises(ModelError, match=r"model\.invalid/v1/chat/completions cannot be reached"):
            await ask(proxy, prompt(), base_url="http://model.invalid/v1", timeout=2.0)

    assert reply.text == "DO_NOTHING: rest"
    assert len(proxy.requests) == 1


async def test_a_mind_that_never_said_a_word_is_given_up_in_time(prompt: Asking) -> None:
    """Where a first word is asked for within some time, comments are none; a reply that has begun has its whole time,
    and so has every question after the first reply."""

    async def pings(writer: asyncio.StreamWriter) -> None:
        writer.write(head() + b": ping\n\n")
        await silence(writer)

    async def slow(writer: asyncio.StreamWriter, at_once: bytes, later: bytes) -> None:
        writer.write(head() + at_once)
        await writer.drain()
        await asyncio.sleep(1.2)  # longer than the first word may take
        writer.write(later)

    word, rest = delta("DO_NOTH"), delta("ING: rest", "stop") + DONE
    async with serving(
        pings, partial(slow, at_once=word, later=rest), partial(slow, at_once=b"", later=word + rest)
    ) as there:
        mind = there.mind(first_word=1.0)
        with pytest.raises(ModelError, match=r"said nothing within 1 s") as raised:
            await mind.complete(prompt())
        replies = [await mind.complete(prompt()) for _ in range(2)]
        await mind.close()

    assert raised.value.unreachable
    assert [reply.text for reply in replies] == ["DO_NOTHING: rest"] * 2


async def test_an_absent_endpoint_is_said_when_the_deadline_comes(prompt: Asking) -> None:
    """Nobody listens: tried again until there is no time left, then one sentence with the address."""
    async with serving(FINE) as endpoint:
        pass

    with pytest.raises(ModelError, match=r"http://127.0.0.1:\d+/v1/chat/completions cannot be reached") as raised:
        await ask(endpoint, prompt(), timeout=1.0)

    assert not raised.value.fatal


@pytest.mark.parametrize("first", [b"", head(), head() + delta("DO_NOTHING: sl")])
async def test_the_deadline_covers_the_whole_call(prompt: Asking, first: bytes) -> None:
    """Silence before the status line, before the first chunk or amid the reply ends at the same time."""

    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await silence(writer)

    async with serving(slow) as endpoint:
        with pytest.raises(ModelError, match=r"no whole reply within 1 s"):
            await ask(endpoint, prompt(), timeout=1.0)


async def test_a_cancelled_call_leaves_the_mind_usable(prompt: Asking, until: Until) -> None:
    """Cancellation goes through, and the next question is answered."""
    async with serving(silence, FINE) as endpoint:
        mind = endpoint.mind()
        asking = asyncio.create_task(mind.complete(prompt()))
        await until(lambda: endpoint.requests)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

        reply = await mind.complete(prompt())
        await mind.close()

    assert reply.text == "DO_NOTHING: rest"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"api_key": "sk-one\nsk-two"}, "api_key"),
        ({"api_key": "schlüssel"}, "api_key"),
        ({"base_url": "localhost:8000"}, "base_url"),
        ({"base_url": "ftp://127.0.0.1/v1"}, "base_url"),
        ({"base_url": "http://[::1/v1"}, "base_url"),
    ],
)
def test_settings_that_cannot_be_sent_are_refused_at_once(settings: dict[str, str], sentence: str) -> None:
    """An address or key that no request can carry is an error of the configuration, without the key in it."""
    with pytest.raises(ConfigError, match=sentence) as raised:
        OpenAIMind(MindSettings(kind="openai", **settings))

    assert settings.get("api_key", KEY) not in str(raised.value)


async def test_minds_that_share_a_line_ask_in_turn(
    prompt: Asking, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many questions are under way at once; the others wait, and that is no time of theirs."""
    monkeypatch.setattr("conch.minds.endpoint.CALLS", 2)
    released = asyncio.Event()

    async def when_released(writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.write(FINE)

    async with serving(when_released) as endpoint:
        line = ConnectionPool()
        minds = [endpoint.mind(line=line) for _ in range(5)]
        asking = [asyncio.create_task(mind.complete(prompt("decide"))) for mind in minds]
        await until(lambda: len(endpoint.requests) == 2)
        for mind in minds[:2]:
            await mind.close()  # the line is not its own
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(endpoint.requests) == 2

        released.set()

        assert [reply.text for reply in await asyncio.gather(*asking)] == ["DO_NOTHING: rest"] * 5
        await line.close()


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("Thu, 01 Jan 2026 00:01:00 -0000", 60.0),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    """Both forms that HTTP allows are understood; anything else counts as not given."""
    assert retry_after(value, NOW) == seconds


@given(st.text())
def test_no_retry_after_raises(value: str) -> None:
    """Whatever an endpoint puts there, the answer is seconds from 0 or None."""
    seconds = retry_after(value, NOW)

    assert seconds is None or seconds >= 0


PRICE = {"price": {"input": 2.0, "output": 8.0, "cached_input": 0.5}, "currency": "EUR"}


def counted(prompt_tokens: object, completion_tokens: object, **more: object) -> bytes:
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, **more}
    return head() + delta("DO_NOTHING: x", "stop") + event({"choices": [], "usage": usage}) + DONE


@pytest.mark.parametrize(
    ("answer", "cost"),
    [
        (counted(1_000_000, 500_000), 6.0),
        (counted(1_000_000, 0, prompt_tokens_details={"cached_tokens": 400_000}), 1.4),
        (counted(1_000_000, 0, prompt_tokens_details={"cached_tokens": 9_000_000}), 0.5),
        (counted(1_000_000, 0, prompt_tokens_details={"cached_tokens": -5}), 2.0),
        (counted(1_000_000, 0, prompt_tokens_details=None), 2.0),
        (counted(None, None), None),
        (head() + delta("DO_NOTHING: x", "stop") + DONE, None),
    ],
)
async def test_only_tokens_that_the_endpoint_counted_have_a_price(
    prompt: Asking, answer: bytes, cost: float | None
) -> None:
    """By the prices of a million tokens, less for the part that was in its cache; of estimated tokens none is known."""
    async with serving(answer) as endpoint:
        priced = await ask(endpoint, prompt(), **PRICE)
        unpriced = await ask(endpoint, prompt())

    assert priced.cost == (None if cost is None else pytest.approx(cost))
    assert unpriced.cost is None


async def test_a_reply_shows_how_far_it_has_come(prompt: Asking, until: Until) -> None:
    """Its characters so far, reasoning among them, and its text, while the rest is waited for."""
    progress, rest = ReplyProgress(), asyncio.Event()

    async def slowly(writer: asyncio.StreamWriter) -> None:
        thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm, let me"}}]}
        writer.write(head() + event(thought) + delta("DO_NOTHING: "))
        await writer.drain()
        await rest.wait()
        writer.write(delta("rest", "stop") + DONE)

    async with serving(slowly) as endpoint:
        asking = asyncio.ensure_future(ask(endpoint, replace(prompt(), progress=progress)))
        await until(lambda: progress.characters == 22)
        assert progress.tokens == 8
        assert progress.reply is not None
        assert progress.reply.so_far == "DO_NOTHING: "
        rest.set()
        assert (await asking).text == "DO_NOTHING: rest"

    assert progress.characters == 26


async def test_a_hundred_thousand_tokens_one_by_one_are_a_reply(prompt: Asking) -> None:
    """Each in an event of its own, within the limits of characters and bytes."""
    tokens = 100_000
    stream = head() + delta("DO_NOTHING: ") + delta("abcd ") * tokens + delta("", "stop") + USAGE + DONE
    async with serving(stream) as endpoint:
        reply = await ask(endpoint, prompt())

    assert len(reply.text) == 12 + 5 * tokens


@pytest.mark.parametrize("cut", range(1, 4))
async def test_a_character_cut_between_two_packets_is_whole(prompt: Asking, cut: int) -> None:
    """The bytes of one character of UTF-8 arrive apart."""
    text = '{"choices": [{"index": 0, "delta": {"content": "DO_NOTHING: \U0001f41a"}, "finish_reason": "stop"}]}'
    data = head() + b"data: " + text.encode() + b"\n\n" + DONE
    place = data.index("\U0001f41a".encode()) + cut
    began = asyncio.Event()

    async def apart(writer: asyncio.StreamWriter) -> None:
        writer.write(data[:place])
        await writer.drain()
        began.set()
        await asyncio.sleep(0)
        writer.write(data[place:])

    async with serving(apart) as endpoint:
        assert (await ask(endpoint, prompt())).text == "DO_NOTHING: \U0001f41a"


@pytest.mark.parametrize(
    "line", [b"data: {\x00}\n\n", b"data: \x00\x00\n\n", b'data: {"choices": [{"delta": {"content": "\x00"}}]}\n\n']
)
async def test_a_nul_in_the_stream_is_said_and_ends_the_reply(prompt: Asking, line: bytes) -> None:
    """JSON has none: the error shows the line without it."""
    async with serving(head() + line + FINE) as endpoint:
        with pytest.raises(ModelError, match="sent what is no completion") as failed:
            await ask(endpoint, prompt())

    assert "\x00" not in str(failed.value)


async def test_a_stream_that_goes_on_for_ever_slowly_ends_at_the_deadline(prompt: Asking) -> None:
    """A word now and then is no sign of an end: `mind.timeout` covers the whole reply."""

    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(head())
        while True:
            writer.write(delta("word "))
            await writer.drain()
            await asyncio.sleep(0.01)

    async with serving(drip) as endpoint:
        with pytest.raises(ModelError, match=r"gave no whole reply within 0\.3 s"):
            await ask(endpoint, prompt(), timeout=0.3)
