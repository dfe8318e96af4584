"""A real model behind the grammar: every reply is an action; the engine is started again, and needs its key."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import httpx2
import psutil
import pytest

from conch.actions import Registry, parse
from conch.config import Settings
from conch.engine import RunningEngine, minded, running_engine
from conch.errors import ConchError, ConfigError
from conch.minds import Completion, MindFactory, Prompt, Situation
from conch.tools import BUILTIN_TOOLS
from conch_schemas import PromptMessage
from tests.engine.conftest import SETTINGS

REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)
REPLIES = 100
OTHER_REPLIES = 8
TOKENS = 64
NEEDS = ("curiosity", "reliability", "excellence", "sustainability")


def prompt(cycle: int) -> Prompt:
    asked = PromptMessage(role="user", content=f"You need {NEEDS[cycle % 4]}. What do you do?")
    situation = Situation("echo", cycle, {}, {}, NEEDS[cycle % 4])
    return Prompt("decide", "You are an agent.", (asked,), situation, max_tokens=TOKENS, registry=REGISTRY)


@pytest.mark.timeout(240)
async def test_a_hundred_replies_of_a_small_model_are_all_valid(asking: Settings, tmp_path: Path) -> None:
    """Held to the grammar of the built-in tools, SmolLM2 writes nothing but actions, each with its decoding."""
    async with MindFactory(asking.mind) as minds:
        mind = minds.make(seed=1, memory=tmp_path)
        turns = asyncio.Semaphore(4)

        async def one(cycle: int) -> Completion:
            async with turns:
                return await mind.complete(prompt(cycle))

        replies = await asyncio.gather(*(one(cycle) for cycle in range(REPLIES)))

    found = [parse(reply.text, REGISTRY) for reply in replies]
    assert [(reply.text, action.reason) for reply, action in zip(replies, found, strict=True) if not action.valid] == []
    for reply in replies:
        assert reply.constrained
        assert reply.decoding is not None
        assert (reply.decoding.engine, reply.decoding.constraint) == ("llama.cpp", "grammar")
        assert reply.decoding.logprob is not None
        assert reply.decoding.logprob < 0
    assert len({reply.text for reply in replies}) > REPLIES // 4


@pytest.mark.timeout(240)
@pytest.mark.parametrize("constrain", ["schema", "tools"])
async def test_a_reply_is_recorded_as_held_where_it_was(asking: Settings, tmp_path: Path, constrain: str) -> None:
    """To a JSON schema every reply is held. A required call of a tool is taken by the engine, and not applied to this
    model: its replies are recorded as free."""
    mind_settings = asking.mind.model_copy(update={"constrain": constrain})
    async with MindFactory(mind_settings) as minds:
        mind = minds.make(seed=1, memory=tmp_path)
        replies = [await mind.complete(prompt(cycle)) for cycle in range(OTHER_REPLIES)]

    whole = [reply for reply in replies if reply.finish_reason != "length"]
    assert [reply.text for reply in whole if reply.constrained != parse(reply.text, REGISTRY).valid] == []
    assert all(reply.constrained for reply in replies) or constrain == "tools"
    for reply in replies:
        assert reply.decoding is not None
        assert reply.decoding.constraint == (constrain if reply.constrained else "free")


async def test_a_mind_at_the_endpoint_finds_the_grammar(asking: Settings, tmp_path: Path) -> None:
    """`mind.constrain: auto` at llama.cpp's server: the grammar is found by asking, and holds the decision."""
    mind_settings = asking.mind.model_copy(update={"kind": "openai"})
    async with MindFactory(mind_settings, endpoints=tmp_path) as minds:
        reply = await minds.make(seed=1, memory=tmp_path).complete(prompt(0))

    assert (reply.constrained, reply.decoding and reply.decoding.constraint) == (True, "grammar")
    assert parse(reply.text, REGISTRY).valid
    [kept] = tmp_path.glob("*.json")
    assert '"form":"grammar"' in kept.read_text()


async def test_the_same_cycle_is_decoded_alike(asking: Settings, tmp_path: Path) -> None:
    """Seed, prompt and engine are the same: so is the reply."""
    async with MindFactory(asking.mind) as minds:
        texts = {(await minds.make(seed=1, memory=tmp_path).complete(prompt(3))).text for _ in range(2)}

    assert len(texts) == 1


async def test_a_request_without_the_key_is_refused(engine: RunningEngine) -> None:
    """The engine listens on loopback alone, and answers those that have its key."""
    assert engine.address.url is not None
    assert engine.address.url.startswith("http://127.0.0.1:")
    async with httpx2.AsyncClient() as client:
        answer = await client.post(f"{engine.address.url}/v1/chat/completions", json={"messages": []})
    assert answer.status_code == 401


async def test_a_mind_waits_for_an_engine_that_is_started_again(
    engine: RunningEngine, asking: Settings, tmp_path: Path
) -> None:
    """Killed, the engine comes back on its port with its key; a request meanwhile is retried until it is there."""
    assert engine.record.pid is not None
    psutil.Process(engine.record.pid).kill()
    async with MindFactory(asking.mind) as minds:
        mind = minds.make(seed=1, memory=tmp_path)
        async with asyncio.timeout(60):
            while True:
                try:
                    reply = await mind.complete(prompt(0))
                except ConchError:  # a cycle's retry
                    continue
                break

    assert parse(reply.text, REGISTRY).valid
    assert engine.record.restarts == 1


@pytest.mark.parametrize(("asked", "has"), [(None, 8192), (1024, 1024), (50_000, 8192)])
async def test_the_window_is_the_one_that_the_engine_serves(
    asked: int | None, has: int, model: Path, home: Path
) -> None:
    """As the settings ask, but no more than the model has; agents' minds know it. A reply has 1,024 tokens where the
    settings do not say it, and half of the window; an endpoint's beside it keeps its own."""
    settings = Settings.model_validate(
        {"mind": {"kind": "local", "context_window": asked, "fallbacks": [{"kind": "openai"}]}}
    )
    async with running_engine(settings, home, model) as running:
        mind = minded(settings, model, running.address).mind
        assert (mind.context_window, mind.reply_tokens) == (has, min(1024, has // 2))
        assert mind.fallbacks[0].max_tokens == 8192


async def test_a_model_with_too_small_a_window_is_refused(model: Path, home: Path) -> None:
    """A model of 256 tokens of context: no prompt and reply fit in, which is said before a cycle."""
    key = b"llama.context_length" + struct.pack("<I", 4)
    content = model.read_bytes()
    small = home / "small.gguf"
    small.write_bytes(content.replace(key + struct.pack("<I", 8192), key + struct.pack("<I", 256), 1))

    with pytest.raises(ConchError, match=r"small\.gguf has a context of 256 tokens: a prompt and a reply") as refused:
        async with running_engine(SETTINGS, home, small):
            pass
    assert refused.value.exit_code == ConfigError.exit_code


@pytest.mark.parametrize("kept", [1_000_000, 50_000_000, -1])
async def test_a_file_that_is_cut_is_refused_in_a_sentence(kept: int, model: Path, home: Path) -> None:
    """Cut in its head, in its middle, or by its last byte: the engine says what is wrong, as a bad setting."""
    cut = home / "cut.gguf"
    cut.write_bytes(model.read_bytes()[:kept])

    with pytest.raises(ConchError, match=r"the engine cannot serve .*cut\.gguf: .+") as refused:
        async with running_engine(SETTINGS, home, cut):
            pass
    assert refused.value.exit_code == ConfigError.exit_code


async def test_a_port_that_is_taken_is_named(engine: RunningEngine, model: Path, home: Path) -> None:
    """A second engine at the port of the first one does not begin, and says why."""
    assert engine.address.url is not None
    other = engine.address

    with pytest.raises(ConchError, match=f"couldn't bind HTTP server socket.*{other.port}"):
        async with running_engine(SETTINGS, home, model, other):
            pass
