"""A prompt keeps to its budget by the tokenizer of the model, where its server counts; else by the estimate."""

from __future__ import annotations

import json
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from conch.cycle.prompts.build import PromptLimits
from conch.cycle.prompts.counted import counted_prompt
from conch.engine import TokenCounter
from conch.errors import ModelError
from conch.minds import RecentOutcome, Situation
from conch_schemas import Action
from tests.serving import listening


class Tokenizer:
    """A server that counts one token for each `size` characters, and remembers what it was asked."""

    def __init__(self, size: int, status: int = 200) -> None:
        self.size, self.status = size, status
        self.asked: list[str] = []
        self.heads: list[bytes] = []

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer until the client closes."""
        while head := await reader.readuntil(b"\r\n\r\n"):
            self.heads.append(head)
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            text = json.loads(await reader.readexactly(length))["content"]
            self.asked.append(text)
            body = json.dumps({"tokens": [0] * -(-len(text) // self.size)}).encode()
            writer.write(b"HTTP/1.1 %d x\r\nset-cookie: who=agent; path=/\r\n" % self.status)
            writer.write(b"content-length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()


@asynccontextmanager
async def counting(tokenizer: Tokenizer) -> AsyncIterator[TokenCounter]:
    async with listening(tokenizer.serve) as port:
        counter = TokenCounter(f"http://127.0.0.1:{port}/v1", None)
        yield counter
        await counter.close()


def situation(cycle: int = 9) -> Situation:
    """One with more than fits: acts of 4 KB each."""
    action = Action(kind="TOOL", valid=True, tool="shell", args={"command": "cat a"})
    acts = tuple(RecentOutcome(n, action, "success", "", result=f"{n} line of a result\n" * 200) for n in range(cycle))
    return Situation("echo", cycle, {"curiosity": 0.5}, {"curiosity": 0.25}, "curiosity", recent=acts)


@pytest.mark.parametrize("size", [1, 2, 4, 6])
async def test_the_budget_is_kept_and_used_by_the_models_own_count(size: int) -> None:
    """Of a tokenizer that makes more tokens than the estimate, and of one that makes fewer."""
    async with counting(Tokenizer(size)) as counter:
        prompt = await counted_prompt("think", "system", situation(), PromptLimits(10, 2000, counter=counter))

    real = sum(-(-len(text) // size) for text in ("system", *(message.content for message in prompt.messages)))
    assert prompt.counted == "tokenizer"
    assert real <= prompt.tokens <= 2000
    assert prompt.tokens > 1500


@pytest.mark.parametrize("size", [1, None])
@pytest.mark.parametrize("budget", [512, 2000])
async def test_a_system_prompt_that_leaves_no_room_is_refused(size: int | None, budget: int) -> None:
    """Counted or estimated, in either form: the sentence has the tokens and the setting. A prompt that is only recorded
    is written all the same."""
    system = "word " * budget
    async with counting(Tokenizer(size or 1)) as counter:
        limits = PromptLimits(10, budget, counter=counter if size else None)
        with pytest.raises(ModelError, match=rf"has {budget} tokens.*raise mind\.prompt_tokens") as refused:
            await counted_prompt("decide", system, situation(), limits)

        prompt = await counted_prompt("decide", system, situation(), PromptLimits(10, budget, is_read=False))

    assert refused.value.fatal
    assert prompt.messages


async def test_a_text_is_counted_once() -> None:
    """A prompt that is asked for again, and the system prompt of another one, cost no request."""
    tokenizer = Tokenizer(3)
    async with counting(tokenizer) as counter:
        limits = PromptLimits(10, 2000, counter=counter)
        await counted_prompt("think", "system", situation(), limits)
        await counted_prompt("think", "system", situation(), limits)
        first = len(tokenizer.asked)
        again = await counted_prompt("think", "system", situation(), limits)
        await counted_prompt("think", "system", situation(8), limits)

    assert again.counted == "tokenizer"
    assert first <= len(set(tokenizer.asked))
    assert tokenizer.asked.count("system") == 1
    assert len(tokenizer.asked) == len(set(tokenizer.asked))


@pytest.mark.parametrize("status", [404, 405, 500])
async def test_an_endpoint_that_counts_nothing_leaves_the_estimate_and_is_not_asked_each_time(status: int) -> None:
    """The prompt says that it was estimated; one request in all."""
    tokenizer = Tokenizer(3, status)
    async with counting(tokenizer) as counter:
        limits = PromptLimits(10, 2000, counter=counter)
        prompts = [await counted_prompt("think", "system", situation(), limits) for _ in range(3)]

    assert {prompt.counted for prompt in prompts} == {"estimate"}
    assert all(prompt.tokens <= 2000 for prompt in prompts)
    assert len(tokenizer.asked) == 1


async def test_an_engine_that_is_away_leaves_the_estimate() -> None:
    """Nothing listens any more: the same prompt as without a counter."""
    tokenizer = Tokenizer(3)
    async with listening(tokenizer.serve) as port:
        pass
    counter = TokenCounter(f"http://127.0.0.1:{port}", None)
    found = await counted_prompt("think", "system", situation(), PromptLimits(10, 2000, counter=counter))
    plain = await counted_prompt("think", "system", situation(), PromptLimits(10, 2000))
    await counter.close()

    assert found == plain
    assert found.counted == "estimate"


async def test_a_cookie_of_the_tokenizer_is_not_kept() -> None:
    """The next request is as the first."""
    tokenizer = Tokenizer(3)
    async with counting(tokenizer) as counter:
        assert await counter.counts(["one", "two"]) == (1, 1)

    assert len(tokenizer.heads) == 2
    assert b"cookie" not in b"".join(tokenizer.heads).lower()
