"""The engine of the kind transformers: a tiny base and adapters of it, in a process of their own behind the front."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from conch.config import OneMindSettings, Settings
from conch.engine import RunningEngine, checked_base, minded, running_engine
from conch.errors import ConchError, ConfigError, ServingError
from conch.minds import MindFactory, Prompt, Situation
from conch.serving import AdapterFiles, adapter_serving, probe, record_probe
from conch_schemas import PromptMessage

for library in ("torch", "transformers", "peft"):
    pytest.importorskip(library, reason="the kind transformers needs the extra train")
save_file = pytest.importorskip("safetensors.numpy").save_file

PROMPTS = [[PromptMessage(role="user", content=f"{thing}?")] for thing in ("dog", "bread", "sea")]
WIDTH, LAYERS = 32, 2
MAKE = """
import sys
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

made = ByteLevelBPETokenizer()
text = ["a dog eats bread by the sea and a river"] * 4
made.train_from_iterator(text, vocab_size=300, special_tokens=["<s>", "</s>"])
tokenizer = PreTrainedTokenizerFast(tokenizer_object=made._tokenizer, bos_token="<s>", eos_token="</s>")
tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\\n{% endfor %}assistant:"
tokenizer.save_pretrained(sys.argv[1])
torch.manual_seed(0)
config = LlamaConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024, eos_token_id=1)
LlamaForCausalLM(config).save_pretrained(sys.argv[1])
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of 50,000 parameters with a tokenizer, made by a process of its own."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    done = subprocess.run([sys.executable, "-c", MAKE, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.fixture
def settings() -> Settings:
    """Those of a run with this kind of mind."""
    return Settings.model_validate({"mind": {"kind": "transformers", "timeout": 60, "max_tokens": 24}})


@pytest.fixture
async def engine(base: Path, settings: Settings, tmp_path: Path) -> AsyncIterator[RunningEngine]:
    """An engine that has loaded the base."""
    (tmp_path / "logs").mkdir()
    async with running_engine(settings, tmp_path, checked_base(str(base))) as running:
        yield running


def adapter(folder: Path, seed: int, digit: str, **config: object) -> AdapterFiles:
    """An adapter with random weights, in the format of PEFT."""
    folder.mkdir()
    draw = np.random.default_rng(seed)
    tensors = {}
    for layer in range(LAYERS):
        name = f"base_model.model.model.layers.{layer}.self_attn.o_proj"
        tensors[f"{name}.lora_A.weight"] = draw.normal(0, 1, (4, WIDTH)).astype(np.float32)
        tensors[f"{name}.lora_B.weight"] = draw.normal(0, 1, (WIDTH, 4)).astype(np.float32)
    save_file(tensors, folder / "adapter_model.safetensors")
    plain = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "target_modules": ["o_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(plain | config))
    return AdapterFiles(folder, digit * 64)


async def post(asking: OneMindSettings, **fields: object) -> Any:
    """The answer to a chat completion's request."""
    assert asking.api_key is not None
    headers = {"authorization": f"Bearer {asking.api_key.get_secret_value()}"}
    asked = {"messages": [{"role": "user", "content": "the sea?"}], "max_tokens": 8, "temperature": 0} | fields
    async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
        return await client.post(f"{asking.base_url}/chat/completions", json=asked)


@pytest.mark.timeout(240)
async def test_adapters_are_served_beside_the_base(
    engine: RunningEngine, settings: Settings, base: Path, tmp_path: Path
) -> None:
    """Two adapters and the base, asked side by side, each reply as they do alone; a released one is gone, and those
    that do not fit are refused in a sentence; the mind's replies are recorded with their decoding."""
    asking = minded(settings, base, engine.address)
    serving = await adapter_serving(asking.mind)
    files = [adapter(tmp_path / digit, int(digit), digit) for digit in "12"]
    names = [await serving.ensure(one) for one in files]
    records = [await record_probe(asking.mind, name, serving.base, PROMPTS) for name in names]

    assert serving.base == "tiny"
    for name, lines, others in zip(names, records, records[::-1], strict=True):
        assert (await probe(asking.mind, name, serving.base, lines)).why == ""
        assert not (await probe(asking.mind, name, serving.base, others)).proven

    async def one(name: str) -> tuple[str, str]:
        answer = (await post(asking.mind, model=name)).json()
        return answer["model"], answer["choices"][0]["message"]["content"]

    alone = {name: await one(name) for name in (serving.base, *names)}
    async with asyncio.TaskGroup() as group:
        beside = [group.create_task(one(name)) for name in (serving.base, *names) * 3]
    assert [task.result() for task in beside] == list(alone.values()) * 3
    assert list(alone) == [named for named, _ in alone.values()]

    async with MindFactory(asking.mind) as minds:
        mind = minds.make(seed=3, memory=tmp_path)
        asked = Prompt("think", "You think.", (PROMPTS[0][0],), Situation("echo", 1, {}, {}, "curiosity"), max_tokens=8)
        first, second = await mind.complete(asked), await mind.complete(asked)
    decoding = first.decoding
    assert decoding is not None
    assert (decoding.engine, decoding.model, decoding.temperature, decoding.tokens) == ("transformers", "tiny", 0.3, 8)
    assert decoding.seed is not None
    assert decoding.logprob is not None
    assert decoding.logprob < 0
    assert first.text == second.text

    await serving.release(files[0].digest)
    assert (await serving.names(), (await post(asking.mind, model=names[0])).status_code) == ({names[1]}, 404)
    await refused(serving, tmp_path)
    assert await one(names[1]) == alone[names[1]]
    assert await one(serving.base) == alone[serving.base]
    await serving.close()


async def refused(serving: Any, tmp_path: Path) -> None:
    """Adapters that do not fit are refused in a sentence."""
    cut, wide, other = (adapter(tmp_path / name, 1, name[0]) for name in ("cut", "eide", "ather"))
    weights = cut.directory / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:300])
    wide_tensors = {"base_model.model.model.layers.0.self_attn.o_proj.lora_A.weight": np.zeros((4, 64), np.float32)}
    save_file(wide_tensors, wide.directory / "adapter_model.safetensors")
    unknown = {"base_model.model.model.layers.9.self_attn.o_proj.lora_A.weight": np.zeros((4, WIDTH), np.float32)}
    save_file(unknown, other.directory / "adapter_model.safetensors")
    for files, why in [
        (cut, "cannot be read: Error while deserializing"),
        (wide, "does not fit the base"),
        (other, "does not fit the base: .* tensors are missing or unknown"),
        (AdapterFiles(tmp_path / "none", "d" * 64), "cannot be read"),
    ]:
        with pytest.raises(ServingError, match=why):
            await serving.ensure(files)


@pytest.mark.timeout(120)
async def test_requests_that_cannot_be_taken_are_refused_by_name(
    engine: RunningEngine, settings: Settings, base: Path
) -> None:
    """A constraint, a prompt that is too long, a temperature of text; tokens are counted, a streamed reply is the same
    as one in one piece, and no request passes without the key."""
    asking = minded(settings, base, engine.address).mind
    for fields, why in [
        ({"grammar": "root ::= x"}, "the field grammar is not known here"),
        ({"temperature": "warm"}, "temperature must be a number of 0 to 2"),
        ({"messages": [{"role": "user", "content": "sea " * 3000}]}, "does not fit into the context length of 1024"),
        ({"messages": []}, "messages must be a list"),
    ]:
        answer = await post(asking, **fields)
        assert (answer.status_code, why in answer.text) == (400, True), answer.text

    whole = (await post(asking, logprobs=True)).json()["choices"][0]
    streamed = await post(asking, stream=True, logprobs=True, stream_options={"include_usage": True})
    lines = [line.removeprefix("data: ") for line in streamed.text.splitlines() if line]
    chunks = [json.loads(line) for line in lines[:-1]]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert lines[-1] == "[DONE]"
    assert "".join(choice["delta"].get("content", "") for choice in choices) == whole["message"]["content"]
    assert [one for choice in choices for one in choice.get("logprobs", {}).get("content", ())] == (
        whole["logprobs"]["content"]
    )
    assert (choices[-1]["finish_reason"], chunks[-1]["usage"]["completion_tokens"]) == ("length", 8)
    nameless = asking.model_copy(update={"api_key": type(asking.api_key)("wrong")})  # type: ignore[misc]
    assert (await post(nameless)).status_code == 401


async def test_a_model_without_weights_is_refused(tmp_path: Path) -> None:
    """No configuration, or weights that are pickles: one sentence says what is read."""
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        checked_base(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ConfigError, match="has no weights as safetensors; those in other formats are not read"):
        checked_base(str(tmp_path))


@pytest.mark.timeout(120)
async def test_weights_that_are_cut_end_the_start_in_a_sentence(base: Path, settings: Settings, tmp_path: Path) -> None:
    """The run ends as for a bad setting, and names the model."""
    (tmp_path / "logs").mkdir()
    (folder := tmp_path / "cut").mkdir()
    for file in base.iterdir():
        content = file.read_bytes()
        (folder / file.name).write_bytes(content[:2000] if file.suffix == ".safetensors" else content)
    with pytest.raises(ConchError, match=r"the engine cannot serve .*cut: ") as no_model:
        async with running_engine(settings, tmp_path, folder):
            pass
    assert no_model.value.exit_code == ConfigError.exit_code


def test_the_agents_process_imports_no_torch() -> None:
    """Everything that an agent's process may use of the engine and of serving comes without torch."""
    names = "conch.engine, conch.serving, conch.minds, conch.cycle.hosting.process, conch.engine.front.servers"
    program = (
        f"import sys, {names}; conch.serving.probe, conch.engine.running_engine; "
        "print([name for name in ('torch', 'transformers', 'peft') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
