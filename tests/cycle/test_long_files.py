"""Long files: a line in the middle of one is seen and changed, and one is written, in as few acts as a person would."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from conch.config import MindSettings
from conch.minds import Completion, Prompt
from conch.minds.openai import OpenAIMind
from conch_schemas import ActionDecided, ActionTaken, GoalReached, JsonObject, Usage
from tests.calls import filesystem_call
from tests.endpoints.openai import OpenAI

if TYPE_CHECKING:
    from tests.cycle.conftest import Life

LINES = [f"row {number}: {'kelp and limpets ' * 3}" for number in range(1000)]
LINES[500] = "limit = 10"
GOAL = {
    "id": "limit",
    "statement": "In big.txt the limit is 20.",
    "check": {"kind": "file", "path": "big.txt", "contains": ["limit = 20"]},
}
BOOK = "".join(f'{number}. The "limpet" of pool {number} went home \\ twice.\n' for number in range(420))


def with_read(text: str) -> str:
    """Reads the file from its beginning, then where the last read says that it goes on."""
    more = re.findall(r"it goes on at offset=(\d+)\]", text)
    return filesystem_call("read", "big.txt", **({"offset": int(more[-1])} if more else {}))


def with_search(text: str) -> str:
    """Searches for the line, then reads it with those around it."""
    hit = re.search(r"> big\.txt:(\d+):limit", text)
    if hit is None:
        return filesystem_call("grep", "big.txt", pattern="^limit")
    return filesystem_call("read", "big.txt", offset=int(hit[1]) - 2, lines=5)


class Reader:
    """A mind that knows what stands in its request and nothing else: it looks until it sees the line with its number,
    then changes it."""

    kind, model, learns = "fake", "reader", False

    def __init__(self, looks: Callable[[str], str]) -> None:
        self._looks = looks

    async def complete(self, prompt: Prompt) -> Completion:
        """A thought, or the next call."""
        text = prompt.messages[-1].content
        said = "I look for the limit."
        if prompt.purpose == "decide":
            seen = re.search(r"^> 501\tlimit = 10$", text, re.MULTILINE)
            edit = filesystem_call("edit", "big.txt", old="limit = 10", new="limit = 20")
            said = self._looks(text) if seen is None else edit
        return Completion(said, "stop", Usage(), self.model, 0.1)

    def learn(self, experience: object) -> None:
        """Nothing is learnt."""

    async def close(self) -> None:
        """There is nothing to close."""


@pytest.mark.parametrize(("looks", "window"), [(with_read, 200_000), (with_search, None)])
async def test_a_line_in_the_middle_of_60_kb_is_seen_in_two_acts_and_changed_in_one(
    life: Life, looks: Callable[[str], str], window: int | None
) -> None:
    """By a large window that is read through, and by a small one that is searched: the goal is reached at the third
    act at the latest, and no other line has changed."""
    (life.workspace / "big.txt").write_text("\n".join(LINES) + "\n")
    assert (life.workspace / "big.txt").stat().st_size > 60_000
    life.configured(mind={"kind": "openai", "context_window": window}, goals=[GOAL])
    life.mind = Reader(looks)  # type: ignore[assignment]
    await life.run(3)

    acts = [act.action.skill for act in life.facts(ActionTaken)]
    [reached] = life.facts(GoalReached)
    assert acts[: reached.cycle + 1][-1] == "filesystem.edit"
    assert reached.cycle <= 2
    after = [*LINES[:500], "limit = 20", *LINES[501:]]
    assert (life.workspace / "big.txt").read_text() == "\n".join(after) + "\n"


@dataclass
class Writer(OpenAI):
    """A model that writes the book in one call, and is cut off where its tokens are used up: 3 characters each."""

    def _stream(self, body: JsonObject) -> bytes:
        messages = body["messages"]
        call = f'TOOL: filesystem(operation="write", path="book.md", content={json.dumps(BOOK)})'
        so_far = messages[-2]["content"] if messages[-2]["role"] == "assistant" else ""
        if "Decide" not in messages[-1]["content"] and not so_far:
            call = "I write the book."
        part = call[len(so_far) :][: 3 * body["max_tokens"]]
        ends = "stop" if so_far + part == call else "length"
        chunks: list[JsonObject] = [
            {"choices": [{"index": 0, "delta": {"content": part}, "finish_reason": ends}]},
            {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": len(part) // 3}},
        ]
        return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


@pytest.mark.parametrize(("limit", "questions"), [({}, 1), ({"max_tokens": 4096}, 2)])
async def test_a_text_of_20_kb_is_written_in_one_act(life: Life, limit: JsonObject, questions: int) -> None:
    """With the default limit in one reply, with half of it in one that is continued: one decision, whose tokens are
    those of both questions, and one act."""
    server = Writer()
    async with server.serving():
        settings = server.settings.model_dump() | {"api_key": server.key, "constrain": "off"} | limit
        life.configured(mind=settings)
        life.mind = OpenAIMind(MindSettings.model_validate(settings))  # type: ignore[assignment]
        await life.run(1)
        await life.mind.close()

    [decided], [act] = life.facts(ActionDecided), life.facts(ActionTaken)
    assert len(BOOK) > 20_000
    assert (life.workspace / "book.md").read_text() == BOOK
    assert (act.outcome.status, decided.finish_reason) == ("success", "stop")
    assert len(server.requests) == 1 + questions
    assert decided.usage.input_tokens == 100 * questions
    assert decided.usage.output_tokens == pytest.approx(len(json.dumps(BOOK)) / 3, abs=50)
