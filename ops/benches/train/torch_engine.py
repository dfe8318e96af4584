"""A tiny base in torch, in the engine's process of Conch, and adapters of it with drawn weights."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from conch.config import OneMindSettings, Settings
from conch.engine import checked_base, minded, running_engine
from conch.home import Home
from conch.serving import AdapterFiles, adapter_serving, record_probe
from conch.training import CONFIG, WEIGHTS, AdapterIdentity, AdapterShelf, ShelvedAdapter
from conch_schemas import PromptMessage

PROMPTS = [[PromptMessage(role="user", content=f"Decide {number}: what do you do now?")] for number in range(4)]
WIDTH, LAYERS = 128, 2
MAKE = """
import sys
from pathlib import Path
from conch.training.tiny import make_tiny_model
prompts = [[{"role": "user", "content": f"Decide {number}: what do you do now?"}] for number in range(4)]
make_tiny_model(Path(sys.argv[1]), prompts, vocabulary=384, steps=0)
"""


@asynccontextmanager
async def torch_engine(
    place: Path, home: Home, agent: str
) -> AsyncIterator[tuple[OneMindSettings, Sequence[ShelvedAdapter]]]:
    """Entered, the engine serves the base: the settings of a mind that asks it as an endpoint, and four adapters of the
    agent's lineage on the home's shelf, with their replies recorded."""
    folder = place / "tiny"
    subprocess.run([sys.executable, "-c", MAKE, str(folder)], check=True)
    base = checked_base(str(folder))
    settings = Settings.model_validate({"mind": {"kind": "transformers", "timeout": 60, "max_tokens": 24}})
    (place / "logs").mkdir()
    async with running_engine(settings, place, base) as running:
        asking = minded(settings, base, running.address).mind
        made = [_adapter(place, home, agent, number) for number in range(1, 5)]
        serving = await adapter_serving(asking)
        for one in made:
            name = await serving.ensure(AdapterFiles(one.folder, one.digest))
            lines = await record_probe(asking, name, serving.base, PROMPTS)
            AdapterShelf(home.adapters).record_probe(one.digest, "openai", lines)
            await serving.release(one.digest)
        await serving.close()
        yield asking, made


def _adapter(place: Path, home: Home, agent: str, number: int) -> ShelvedAdapter:
    source = place / f"made-{number}"
    source.mkdir()
    drawn = np.random.default_rng(number)
    tensors = {}
    for layer in range(LAYERS):
        name = f"base_model.model.model.layers.{layer}.self_attn.o_proj"
        tensors[f"{name}.lora_A.weight"] = drawn.normal(0, 1, (4, WIDTH)).astype(np.float32)
        tensors[f"{name}.lora_B.weight"] = drawn.normal(0, 1, (WIDTH, 4)).astype(np.float32)
    save_file(tensors, source / WEIGHTS)
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "target_modules": ["o_proj"]}
    (source / CONFIG).write_text(json.dumps(config))
    identity = AdapterIdentity(
        base="tiny", base_digest="b" * 64, tokenizer_digest="c" * 64, template_digest="d" * 64,
        agentuid=home.agentuid(agent), generation=number, round="e" * 64, snapshot="f" * 64, method="sft",
    )  # fmt: skip
    return AdapterShelf(home.adapters).put(source, identity)
