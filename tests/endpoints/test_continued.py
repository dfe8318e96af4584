"""The rest of a decision that was cut off is asked for once, and both parts are one reply."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.actions import parse
from conch.config import MindSettings
from conch.minds import Completion, Prompt, PromptPart
from conch.minds.openai import OpenAIMind
from conch.minds.replies.continued import GO_ON, joined_text
from conch_schemas import JsonObject
from tests.endpoints.asking import REGISTRY, decision
from tests.endpoints.openai import OpenAI

TEXT = "".join(f'{number}: a line with "quotes" and a \\ in it\n' for number in range(450))
"""Some 20 KB."""
CALL = {"operation": "write", "path": "book.md", "content": TEXT}
WRITTEN = f'TOOL: filesystem(operation="write", path="book.md", content={json.dumps(TEXT, ensure_ascii=False)})'


@dataclass
class Parts(OpenAI):
    """A server that gives parts of a reply in turn, each but the last cut off at its limit of tokens."""

    parts: list[str] = field(default_factory=list)
    ends: str = "stop"
    """Why the last part ended."""
    fails: int | None = None
    """The number of the request, from 0, that it refuses."""

    def _stream(self, body: JsonObject) -> bytes:
        number = len(self.requests) - 1
        if number == self.fails:
            raise self.error(400, "This model's maximum context length is 2048 tokens.")
        part = self.parts[min(number, len(self.parts) - 1)]
        delta: dict[str, Any] = {"content": part}
        if "tools" in body:
            delta = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "filesystem", "arguments": part}}]}
        ends = self.ends if number >= len(self.parts) - 1 else "length"
        usage = {"prompt_tokens": 1000 * (number + 1), "completion_tokens": 10 * (number + 1)}
        chunks: list[JsonObject] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": ends}]},
            {"choices": [], "usage": usage},
        ]
        whole = [{"model": self.model, **chunk} for chunk in chunks]
        return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in whole) + b"data: [DONE]\n\n"


async def ask(server: Parts, prompt: Prompt | None = None, **settings: Any) -> Completion:
    """The reply of a mind that asks the server."""
    async with server.serving():
        prices = {"price": {"input": 1.0, "output": 2.0}, "currency": "EUR"}
        given = server.settings.model_dump() | {"api_key": server.key, "constrain": "off"} | prices | settings
        mind = OpenAIMind(MindSettings.model_validate(given))
        reply = await mind.complete(prompt or decision())
        await mind.close()
    return reply


def halves(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


async def test_the_rest_of_a_call_is_asked_for_and_both_are_one_reply() -> None:
    """The second question holds the first part as the assistant's; tokens and prices add up; the act is the whole."""
    server = Parts(parts=halves(WRITTEN))
    reply = await ask(server)

    first, second = server.requests
    assert parse(reply.text, REGISTRY).args == CALL
    assert (reply.finish_reason, reply.constrained) == ("stop", False)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (3000, 30)
    assert reply.cost == pytest.approx((3000 * 1.0 + 30 * 2.0) / 1e6)
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert second["messages"][-2:] == [
        {"role": "assistant", "content": WRITTEN[: len(WRITTEN) // 2]},
        {"role": "user", "content": GO_ON},
    ]
    assert first["max_tokens"] == second["max_tokens"]


async def test_a_native_call_is_continued_as_json() -> None:
    """Its arguments as far as they came stand in the second question, which is held to nothing."""
    server = Parts(parts=halves(json.dumps(CALL | dict.fromkeys(("pattern", "old", "new", "all")))))

    reply = await ask(server, constrain="tools")

    first, second = server.requests
    assert "tools" in first
    assert "tools" not in second
    assert parse(reply.text, REGISTRY).args == CALL
    assert "Your call of filesystem was cut off" in second["messages"][-1]["content"]


async def test_a_rest_that_repeats_itself_is_not_joined() -> None:
    """How much of a row of zeros was repeated cannot be told; the reply stays cut off, and no short file is written."""
    begun = 'TOOL: filesystem(operation="write", path="row.csv", content="' + 40 * "0,"
    server = Parts(parts=[begun, 30 * "0," + '1")'])

    reply = await ask(server)

    assert (reply.text, reply.finish_reason) == (begun, "length")


async def test_it_is_asked_for_once() -> None:
    """A reply that is cut off twice is the one of both parts, and says that it was cut off."""
    server = Parts(parts=['TOOL: shell(command="echo a', " b", 'c")'], ends="length")
    reply = await ask(server)

    assert len(server.requests) == 2
    assert (reply.text, reply.finish_reason) == ('TOOL: shell(command="echo a b', "length")


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("I will look at the files first, and then", lambda prompt: prompt),
        ("DO_NOTHING: there is nothing that", lambda prompt: prompt),
        ("TOOL: shell(command=\"ls", lambda prompt: replace(prompt, purpose="think")),
        ("TOOL: shell(command=\"ls", lambda prompt: replace(prompt, may_go_on=False)),
    ],
)  # fmt: skip
async def test_nothing_is_asked_for_that_could_not_mend_it(part: str, change: Callable[[Prompt], Prompt]) -> None:
    """A chat, an action that is whole, a thought, and a reply for whose rest the budget has no room."""
    server = Parts(parts=[part, "x"])
    reply = await ask(server, change(decision()))

    assert len(server.requests) == 1
    assert (reply.text, reply.finish_reason) == (part, "length")


async def test_a_window_without_room_for_both_parts_leaves_it_cut() -> None:
    """What would not fit is not asked; where some room is left, the rest has that many tokens."""
    tight, wide = (
        Parts(parts=['TOOL: shell(command="' + "x" * 300, '")']),
        Parts(parts=['TOOL: shell(command="a', '")']),
    )
    large = replace(decision(), parts=(PromptPart("system", 300),))

    await ask(tight, large, context_window=512, max_tokens=200)
    await ask(wide, context_window=2000, max_tokens=1000)

    assert len(tight.requests) == 1
    assert len(wide.requests) == 2
    assert 256 <= wide.requests[1]["max_tokens"] <= 1000


async def test_a_rest_that_does_not_come_leaves_the_reply_as_it_was() -> None:
    """The first part is paid for: it is the reply, cut off."""
    server = Parts(parts=['TOOL: shell(command="ls', '")'], fails=1)
    reply = await ask(server)

    assert (reply.text, reply.finish_reason) == ('TOOL: shell(command="ls', "length")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (1000, 10)


HEAD = 'TOOL: filesystem(operation="write", path="a.md", content="one two three four five'


@pytest.mark.parametrize(
    ("rest", "whole"),
    [
        (' six")', HEAD + ' six")'),
        ('one two three four five six")', HEAD + ' six")'),
        (HEAD + ' six")', HEAD + ' six")'),
        ('```\n six")\n```', HEAD + ' six")'),
        ("", HEAD),
    ],
)
def test_parts_are_joined_as_models_write_them(rest: str, whole: str) -> None:
    """A rest alone, one that repeats the end, one that begins anew, one in a fence, and none."""
    assert joined_text(HEAD, rest) == whole


@given(st.text(max_size=100), st.text(max_size=100))
def test_a_short_rest_is_never_cut(head: str, rest: str) -> None:
    """What repeats fewer than 20 characters stays as it is."""
    if "```" not in rest and len(rest) < 20:
        assert joined_text(head, rest) == head + rest
