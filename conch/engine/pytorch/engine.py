"""The engine of the front that decodes in this process, one reply at a time."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from conch.engine.front.engine import EngineRefusalError
from conch.engine.front.relay import gone
from conch.engine.pytorch.model import DecodedToken, TokenSampling, TorchModel
from conch.tasks import OwnedTasks, race
from conch_schemas import JsonObject

DEFAULT_TOKENS: Final = 1024
"""Most tokens of a reply where the request does not say it."""
_FIELDS: Final = frozenset(
    {
        "model",
        "messages",
        "max_tokens",
        "temperature",
        "top_p",
        "seed",
        "stream",
        "stream_options",
        "logprobs",
        "top_logprobs",
    }
)
"""Fields of a request that are known; another one is refused, as leaving it out would change the reply."""


class TorchEngine:
    """A base and its adapters in this process. Replies, loads and unloads take turns."""

    def __init__(self, model: TorchModel, base: str) -> None:
        self._model, self.base = model, base
        self._turn = asyncio.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """The adapters that are loaded."""
        return self._model.names

    async def load(self, name: str, directory: Path) -> None:
        """Load an adapter, after the reply that is being decoded. Raises EngineRefusalError."""
        async with self._turn:
            await asyncio.to_thread(self._model.load, name, directory)

    async def unload(self, name: str) -> None:
        """Unload it, after the reply that is being decoded."""
        async with self._turn:
            await asyncio.to_thread(self._model.unload, name)

    def chat(self, asked: JsonObject, adapter: str | None) -> ASGIApp:
        """A reply, streamed or in one piece. Raises EngineRefusalError for a request that cannot be taken."""
        if unknown := sorted(asked.keys() - _FIELDS):
            raise EngineRefusalError(400, f"the field {unknown[0]} is not known here")
        sampling = _sampling(asked)
        prompt = self._model.prompt(_messages(asked.get("messages")))
        return TorchReply(self, asked, prompt, sampling, adapter)

    def other(self, method: str, path: str, body: bytes) -> ASGIApp:
        """The tokens of a text, as llama.cpp's `/tokenize` counts them. Raises EngineRefusalError."""
        if (method, path) != ("POST", "/tokenize"):
            raise EngineRefusalError(404, f"there is no {path} here")
        try:
            content = json.loads(body)["content"]
        except (ValueError, TypeError, KeyError, RecursionError):
            content = None
        if not isinstance(content, str):
            raise EngineRefusalError(400, "the request has no text `content`")
        return JSONResponse({"tokens": self._model.tokenizer(content, add_special_tokens=False)["input_ids"]})

    async def decoded(
        self, prompt: list[int], sampling: TokenSampling, adapter: str | None
    ) -> AsyncIterator[tuple[str, DecodedToken]]:
        """The reply token by token, each with the text that it ends. Closed early, decoding ends with the token in
        hand."""
        loop, stopped = asyncio.get_running_loop(), threading.Event()
        out: asyncio.Queue[tuple[str, DecodedToken] | None] = asyncio.Queue()

        def put(piece: tuple[str, DecodedToken] | None) -> None:
            loop.call_soon_threadsafe(out.put_nowait, piece)

        async with self._turn, OwnedTasks() as tasks:
            work = tasks.start(
                asyncio.to_thread(self._decode, prompt, sampling, adapter, stopped, put), name="conch.engine.decode"
            )
            try:
                while (piece := await out.get()) is not None:
                    yield piece
                await work
            finally:
                stopped.set()

    def _decode(
        self,
        prompt: list[int],
        sampling: TokenSampling,
        adapter: str | None,
        stopped: threading.Event,
        put: Callable[[tuple[str, DecodedToken] | None], None],
    ) -> None:
        tokens: list[int] = []
        shown = 0
        try:
            for one in self._model.decode(prompt, sampling, adapter, stopped):
                tokens.append(one.token)
                text = self._model.tokenizer.decode(tokens, skip_special_tokens=True)
                whole = text.rstrip("\ufffd")  # half a character: the next token completes it
                put((whole[shown:], one))
                shown = max(shown, len(whole))
        finally:
            put(None)


class TorchReply:
    """The response to a chat completion's request. Where the client goes, decoding ends."""

    def __init__(
        self,
        engine: TorchEngine,
        asked: JsonObject,
        prompt: list[int],
        sampling: TokenSampling,
        adapter: str | None,
    ) -> None:
        self._engine, self._asked, self._prompt = engine, asked, prompt
        self._sampling, self._adapter = sampling, adapter
        self._begun = int(time.time())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        answer = self._streamed(send) if self._asked.get("stream") else self._whole(scope, receive, send)
        await race({"conch.engine.reply": answer, "conch.engine.client": gone(receive)})

    def _tokens(self) -> AsyncIterator[tuple[str, DecodedToken]]:
        return self._engine.decoded(self._prompt, self._sampling, self._adapter)

    async def _whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = [piece async for piece in self._tokens()]
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "".join(text for text, _ in found)},
            "finish_reason": self._end(len(found)),
        }
        if self._asked.get("logprobs"):
            choice["logprobs"] = {"content": [_logprob(*piece) for piece in found]}
        body = self._document("chat.completion", [choice]) | {"usage": self._usage(len(found))}
        await JSONResponse(body)(scope, receive, send)

    async def _streamed(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def sent(choices: list[JsonObject], **more: Any) -> None:
            document = self._document("chat.completion.chunk", choices) | more
            data = f"data: {json.dumps(document, separators=(',', ':'))}\n\n".encode()
            await send({"type": "http.response.body", "body": data, "more_body": True})

        count = 0
        async with aclosing(self._tokens()) as tokens:  # type: ignore[type-var]  # it is a generator
            async for text, token in tokens:
                count += 1
                choice: JsonObject = {"index": 0, "delta": {"content": text}, "finish_reason": None}
                if self._asked.get("logprobs"):
                    choice["logprobs"] = {"content": [_logprob(text, token)]}
                await sent([choice])
        await sent([{"index": 0, "delta": {}, "finish_reason": self._end(count)}])
        if (self._asked.get("stream_options") or {}).get("include_usage"):
            await sent([], usage=self._usage(count))
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    def _end(self, count: int) -> str:
        return "length" if count >= self._sampling.most else "stop"

    def _usage(self, count: int) -> dict[str, int]:
        return {
            "prompt_tokens": len(self._prompt),
            "completion_tokens": count,
            "total_tokens": len(self._prompt) + count,
        }

    def _document(self, kind: str, choices: list[JsonObject]) -> JsonObject:
        model = self._adapter or self._engine.base
        return {"object": kind, "created": self._begun, "model": model, "choices": choices}


def _logprob(text: str, token: DecodedToken) -> JsonObject:
    return {"token": text, "logprob": token.logprob, "top_logprobs": []}


def _messages(given: object) -> list[dict[str, str]]:
    """The messages of a request. Raises EngineRefusalError."""
    fits = (
        isinstance(given, list)
        and given
        and all(
            isinstance(one, dict) and isinstance(one.get("role"), str) and isinstance(one.get("content"), str)
            for one in given
        )
    )
    if not fits:
        raise EngineRefusalError(400, "messages must be a list of objects with the texts role and content")
    assert isinstance(given, list)
    return [{"role": one["role"], "content": one["content"]} for one in given]


def _sampling(asked: JsonObject) -> TokenSampling:
    """How the request asks to draw tokens. Raises EngineRefusalError."""

    def number(name: str, default: float, low: float, high: float) -> float:
        value = asked.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise EngineRefusalError(400, f"{name} must be a number of {low:g} to {high:g}")
        return value

    seed = asked.get("seed")
    return TokenSampling(
        temperature=number("temperature", 1.0, 0, 2),
        top_p=number("top_p", 1.0, 0, 1),
        seed=None if seed is None else int(number("seed", 0, 0, 2**63 - 1)),
        most=int(number("max_tokens", DEFAULT_TOKENS, 1, 1_000_000)),
    )
