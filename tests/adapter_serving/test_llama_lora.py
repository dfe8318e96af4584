"""llama.cpp with adapters on SmolLM2: loaded beside each other, chosen by name, swapped while replies are decoded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import numpy as np
import psutil
import pytest

from conch.config import OneMindSettings
from conch.engine import FRONT_MODULE, RunningEngine, minded, running_engine
from conch.errors import ServingError
from conch.serving import AdapterFiles, adapter_serving, probe, record_probe
from conch_schemas import PromptMessage
from tests.engine.conftest import SETTINGS, home, model

__all__ = ["home", "model"]
pytest.importorskip("gguf", reason="adapters need the extra train")
save_file = pytest.importorskip("safetensors.numpy").save_file

PROMPTS = [[PromptMessage(role="user", content=f"What is {thing}?")] for thing in ("a dog", "bread")]
INPUTS = {"q_proj": 576, "k_proj": 576}
OUTPUTS = {"q_proj": 576, "k_proj": 192}
RANK = 4


def adapter(directory: Path, seed: int, digit: str, scale: float = 0.15) -> AdapterFiles:
    """An adapter of SmolLM2 with random weights, in the format of PEFT."""
    directory.mkdir()
    draw = np.random.default_rng(seed)
    tensors = {}
    for layer in range(0, 30, 3):
        for module, inputs in INPUTS.items():
            name = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            tensors[f"{name}.lora_A.weight"] = draw.normal(0, scale, (RANK, inputs)).astype(np.float32)
            tensors[f"{name}.lora_B.weight"] = draw.normal(0, scale, (OUTPUTS[module], RANK)).astype(np.float32)
    save_file(tensors, directory / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 8, "bias": "none", "target_modules": [*INPUTS]}
    (directory / "adapter_config.json").write_text(json.dumps(config))
    return AdapterFiles(directory, digit * 64)


@pytest.fixture
async def engine(model: Path, home: Path) -> AsyncIterator[RunningEngine]:
    """An engine with a front."""
    async with running_engine(SETTINGS, home, model, module=FRONT_MODULE, slots=2) as running:
        yield running


@pytest.fixture
def asking(engine: RunningEngine, model: Path) -> OneMindSettings:
    """The settings of a mind that asks it."""
    return minded(SETTINGS, model, engine.address).mind


def body(name: str, tokens: int, prompt: str = "Write a story about the sea.", **fields: object) -> dict[str, object]:
    return {
        "model": name,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "temperature": 0,
        **fields,
    }


async def streamed(asking: OneMindSettings, name: str, tokens: int, begun: asyncio.Event) -> tuple[str, set[str]]:
    """The whole streamed reply, and the models that its chunks name."""
    text, names = "", set()
    assert asking.api_key is not None
    headers = {"authorization": f"Bearer {asking.api_key.get_secret_value()}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=120) as client,
        client.stream("POST", f"{asking.base_url}/chat/completions", json=body(name, tokens, stream=True)) as reply,
    ):
        async for line in reply.aiter_lines():
            if line.startswith("data: {"):
                chunk = json.loads(line.removeprefix("data: "))
                names.add(chunk["model"])
                text += "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
                begun.set()
    assert line == "data: [DONE]" or not line
    return text, names


@pytest.mark.timeout(280)
async def test_adapters_are_swapped_without_losing_a_reply(
    engine: RunningEngine, asking: OneMindSettings, tmp_path: Path
) -> None:
    """Two adapters are loaded one after the other; each is proven, the base stays itself, a reply that was being
    decoded comes whole; a server that took over leaves one server behind."""
    serving = await adapter_serving(asking)
    begun = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        long = tasks.create_task(streamed(asking, serving.base, 48, begun))
        await begun.wait()
        first = await serving.ensure(adapter(tmp_path / "one", 1, "1"))
    text, named = long.result()
    again, _ = await streamed(asking, serving.base, 48, asyncio.Event())
    lines = await record_probe(asking, first, serving.base, PROMPTS)
    second = await serving.ensure(adapter(tmp_path / "two", 2, "2"))

    assert len(text) > 60
    assert (text[:40], named) == (again[:40], {serving.base})
    assert await serving.names() == {first, second}
    assert (await probe(asking, first, serving.base, lines)).why == ""
    wrong = await probe(asking, second, serving.base, lines)
    assert (wrong.matches, wrong.name_echoed) == (False, True)
    assert await streamed(asking, second, 4, asyncio.Event()) != await streamed(asking, first, 4, asyncio.Event())
    assert engine.record.pid is not None
    assert len(psutil.Process(engine.record.pid).children()) == 1

    await serving.release("1" * 64)
    assert await serving.names() == {second}
    with pytest.raises(ServingError, match=f"there is no model {first}"):
        await probe(asking, first, serving.base, lines)
    await serving.close()


@pytest.mark.timeout(280)
async def test_a_prompt_that_one_adapter_has_read_is_not_continued_by_another(
    asking: OneMindSettings, tmp_path: Path
) -> None:
    """Two prompts by turns under two adapters: what llama.cpp keeps of a prompt is not taken for the other adapter."""
    serving = await adapter_serving(asking)
    names = [await serving.ensure(adapter(tmp_path / digit, int(digit), digit)) for digit in "12"]
    assert asking.api_key is not None
    headers = {"authorization": f"Bearer {asking.api_key.get_secret_value()}"}
    fish = "About the sea: " + " ".join(f"fish {number} swims," for number in range(12))
    kings = "Other text. " + " ".join(f"The {number}th king reigned;" for number in range(12))

    async with httpx2.AsyncClient(headers=headers, timeout=120) as client:

        async def first_token(name: str, prompt: str, **fields: object) -> float:
            asked = body(name, 1, prompt, logprobs=True, top_logprobs=1, **fields)
            answer = (await client.post(f"{asking.base_url}/chat/completions", json=asked)).json()
            return float(answer["choices"][0]["logprobs"]["content"][0]["logprob"])

        fresh = await first_token(names[1], fish, cache_prompt=False)
        other = await first_token(names[0], fish)
        await first_token(names[1], kings)
        after = await first_token(names[1], fish)

    assert abs(fresh - other) > 0.2
    assert after == pytest.approx(fresh, abs=0.1)
    await serving.close()


@pytest.mark.timeout(120)
async def test_an_adapter_that_cannot_be_served_is_refused_in_a_sentence(
    asking: OneMindSettings, tmp_path: Path
) -> None:
    """Cut short, of another base, no plain LoRA, not there: what replied before goes on."""
    serving = await adapter_serving(asking)
    cut, other, dora = (adapter(tmp_path / name, 1, "c") for name in ("cut", "other", "dora"))
    weights = cut.directory / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    save_file(
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": np.zeros((4, 64), np.float32)},
        other.directory / "adapter_model.safetensors",
    )
    config = dora.directory / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"use_dora": True}))

    for files, why in [
        (cut, "adapter_model.safetensors cannot be read"),
        (other, "it is an adapter of another base"),
        (dora, "it is no plain LoRA: use_dora is True"),
        (AdapterFiles(tmp_path / "none", "d" * 64), "there is no directory"),
    ]:
        with pytest.raises(ServingError, match=why):
            await serving.ensure(files)
    assert await serving.names() == frozenset()
    assert (await streamed(asking, serving.base, 2, asyncio.Event()))[0]
    await serving.close()


@pytest.mark.timeout(240)
async def test_killed_the_engine_comes_back_with_the_base_and_is_told_again(
    engine: RunningEngine, asking: OneMindSettings, tmp_path: Path
) -> None:
    """Its address and key stay, its servers are gone with it; the adapter is loaded again by `ensure`."""
    serving = await adapter_serving(asking)
    files = adapter(tmp_path / "one", 1, "1")
    name = await serving.ensure(files)
    assert engine.record.pid is not None
    front = psutil.Process(engine.record.pid)
    servers = front.children()
    front.kill()

    async with asyncio.timeout(100):
        while True:
            try:
                names = await serving.names()
            except ServingError:
                await asyncio.sleep(0.1)
                continue
            break
    assert names == frozenset()
    assert not [server for server in servers if server.is_running() and server.status() != psutil.STATUS_ZOMBIE]
    assert await serving.ensure(files) == name
    assert (await streamed(asking, name, 2, asyncio.Event()))[1] == {name}
    await serving.close()
