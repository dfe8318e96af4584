"""What an agent's mind has written so far, as it is asked for while the mind writes: no secret is in it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest

from conch.config import Masker
from conch.minds import Completion, Prompt, Purpose
from conch.secrets import HIDDEN
from tests.cycle.conftest import FakeMind

if TYPE_CHECKING:
    from tests.cycle.conftest import Life, Start

KEY = "sk-conch-0123456789abcdef"


class WritingMind(FakeMind):
    """Writes its reply to a question of one purpose as far as the test says, and ends when it is told to."""

    def __init__(self, purpose: Purpose) -> None:
        super().__init__()
        self._purpose = purpose
        self.so_far = ""
        self.is_writing, self.ends = asyncio.Event(), asyncio.Event()

    async def complete(self, prompt: Prompt) -> Completion:
        if prompt.purpose != self._purpose or self.ends.is_set():
            return await super().complete(prompt)
        prompt.progress.reply = self
        self.is_writing.set()
        await self.ends.wait()
        return Completion(self.so_far, "stop", self.usage, self.model, 0.1)


@pytest.mark.parametrize(
    ("purpose", "before", "behind"),
    [("think", "The key is ", ", which I keep."), ("decide", 'TOOL: reply(text="it is ', ', as you know")')],
)
async def test_a_secret_that_is_half_written_is_in_no_draft(
    life: Life, start: Start, purpose: Purpose, before: str, behind: str
) -> None:
    """Of a thought and of an answer: each beginning of the secret is left out until it is whole, and then hidden."""
    life.mind = mind = WritingMind(purpose)
    life.masker = Masker([KEY])
    running = await start()
    await running.ask("say", {"text": "what is the key?", "session": "a"})
    async with asyncio.timeout(10):
        await mind.is_writing.wait()

    drafts = []
    whole = f"{before}{KEY}{behind}"
    for end in range(len(before), len(whole) + 1):
        mind.so_far = whole[:end]
        drafts.append(await running.ask("draft"))
    mind.ends.set()

    assert {draft["phase"] for draft in drafts} == {purpose}
    assert [draft["written"] for draft in drafts[: len(KEY)]] == [before] * len(KEY)
    assert drafts[len(KEY)]["written"] == f"{before}{HIDDEN}"
    assert drafts[-1]["written"] == f"{before}{HIDDEN}{behind}"
    for said in ("written", "text"):
        texts = [draft[said] for draft in drafts]
        assert not any(KEY[:4] in text for text in texts)
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
    assert drafts[-1]["text"] == ("" if purpose == "think" else f"it is {HIDDEN}, as you know")
