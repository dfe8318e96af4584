"""What the stand-ins share: HTTP, the stream of a reply, and a model that wants one thing and keeps to a constraint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from conch.config import MindSettings
from conch_schemas import JsonObject
from tests.serving import listening

Call = tuple[str, dict[str, Any]]
FREE = "Sure! I will look at the files first."
"""What the model says that is held to nothing: no action."""
PROMPT_TOKENS, REPLY_TOKENS = 40, 9


class Refused(Exception):  # noqa: N818 - it is an answer
    """The server's answer to a request that it does not take."""

    def __init__(self, status: int, body: object) -> None:
        super().__init__(str(body))
        self.status, self.body = status, body


@dataclass
class Reply:
    """What the model writes: content, or the call of a tool."""

    content: str | None = None
    call: tuple[str, str] | None = None


def filled(schema: JsonObject, wanted: Call) -> Any:
    """A value of the schema: the branch and the arguments that the model wants, the plainest of all else."""
    name, arguments = wanted
    if "anyOf" in schema:
        branches = schema["anyOf"]
        return filled(next((one for one in branches if name in one.get("properties", {})), branches[0]), wanted)
    if "enum" in schema:
        return schema["enum"][0]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "null" in kinds:
        return None
    if kinds == ["object"]:
        found = {}
        for key, part in schema["properties"].items():
            fits = key in arguments and arguments[key] in part.get("enum", [arguments[key]])
            found[key] = arguments[key] if fits else filled(part, wanted)
        return found
    return {"string": "x", "integer": 0, "number": 0, "boolean": False, "array": []}[kinds[0]]


@dataclass
class Server:
    """A server of chat completions that takes what the real one takes, and refuses what that refuses."""

    name: ClassVar[str]
    forms: ClassVar[tuple[str, ...]]
    """Fields of the constraints that it holds a reply to."""
    call_in_parts: ClassVar[bool] = True
    """Whether a call comes over several chunks."""

    model: str = "tiny"
    key: str | None = None
    wanted: Call = ("filesystem", {"operation": "list", "path": "."})
    url: str = ""
    requests: list[JsonObject] = field(default_factory=list)
    disabled: set[str] = field(default_factory=set)
    """Forms that this one does not hold: the field is taken and ignored."""
    refused: set[str] = field(default_factory=set)
    """Forms whose field this one refuses."""

    @property
    def settings(self) -> MindSettings:
        """Settings of a mind that asks it, as a user would write them."""
        plain = {"kind": "openai", "base_url": self.url, "model": self.model, "timeout": 20.0, "free_share": 0.0}
        return MindSettings.model_validate(plain | ({"api_key": self.key} if self.key else {}))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        """Entered, it listens at `url`."""
        async with listening(self._serve) as port:
            self.url = f"http://127.0.0.1:{port}/v1"
            yield self

    def check(self, body: JsonObject) -> None:
        """Raises Refused for a request that the real server refuses."""

    def error(self, status: int, message: str, **more: Any) -> Refused:
        """A refusal in the shape of this server's errors."""
        raise NotImplementedError

    def unauthorized(self) -> Refused:
        """Its answer to a wrong key."""
        return self.error(401, "Unauthorized")

    def asked(self) -> list[str]:
        """For each request in its order, the field of its constraint; free where it has none."""
        fields = ("grammar", "structured_outputs", "response_format", "tools")
        return [next((name for name in fields if name in body), "free") for body in self.requests]

    def reply(self, body: JsonObject) -> Reply:
        """What the model writes under the constraint that this server holds."""
        form = next((one for one in self.forms if one in body and one not in self.disabled), None)
        name, arguments = self.wanted
        if form in ("grammar", "structured_outputs"):
            grammar = body["grammar"] if form == "grammar" else body["structured_outputs"]["grammar"]
            assert grammar.startswith("root ::= ")
            assert f'"{name}("' in grammar
            written = ", ".join(f"{key}={json.dumps(value)}" for key, value in arguments.items())
            return Reply(f"TOOL: {name}({written})")
        if form == "response_format":
            return Reply(json.dumps(filled(body["response_format"]["json_schema"]["schema"], self.wanted)))
        if form == "tools":
            tool = next(one["function"] for one in body["tools"] if one["function"]["name"] == name)
            return Reply(call=(name, json.dumps(filled(tool["parameters"], self.wanted))))
        return Reply(FREE)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(int(line[16:]) for line in head.lower().split("\r\n") if line.startswith("content-length: "))
        body = json.loads(await reader.readexactly(length))
        self.requests.append(body)
        try:
            if self.key is not None and f"Bearer {self.key}" not in head:
                raise self.unauthorized()
            for form in self.refused:
                if form in body:
                    raise self.error(400, f"{form} cannot be served")
            self.check(body)
            writer.write(_answer(200, "text/event-stream", self._stream(body)))
        except Refused as refused:
            writer.write(_answer(refused.status, "application/json", json.dumps(refused.body).encode()))
        finally:
            writer.close()

    def _stream(self, body: JsonObject) -> bytes:
        assert body["stream"] is True
        reply = self.reply(body)
        deltas: list[JsonObject] = [{"role": "assistant"}]
        if reply.content is not None:
            half = len(reply.content) // 2
            deltas += [{"content": reply.content[:half]}, {"content": reply.content[half:]}]
        if reply.call is not None:
            deltas += self._call(*reply.call)
        ends = "tool_calls" if reply.call is not None else "stop"
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": ends}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            counts = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": REPLY_TOKENS}
            chunks.append({"choices": [], "usage": {**counts, "total_tokens": PROMPT_TOKENS + REPLY_TOKENS}})
        whole = [{"object": "chat.completion.chunk", "model": self.model, **chunk} for chunk in chunks]
        return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in whole) + b"data: [DONE]\n\n"

    def _call(self, name: str, arguments: str) -> list[JsonObject]:
        half = len(arguments) // 2 if self.call_in_parts else len(arguments)
        parts = [{"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}]
        parts[0]["function"]["arguments"] = arguments[:half]
        if arguments[half:]:
            parts.append({"index": 0, "function": {"arguments": arguments[half:]}})
        return [{"tool_calls": [part]} for part in parts]


def _answer(status: int, kind: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body
