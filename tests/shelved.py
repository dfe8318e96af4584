"""Adapters on a shelf, made by hand, each with other weights and with the replies by which the stand-in is known."""

from __future__ import annotations

import json

import numpy as np
from safetensors.numpy import save

from conch.training import CONFIG, WEIGHTS, AdapterIdentity, AdapterShelf, ProbeLine, ShelvedAdapter
from conch_schemas import PromptMessage
from tests.adapter_engine import BASE, replies

KIND = "openai"
"""Kind of the stand-in, by which its replies are recorded."""
PROMPTS = tuple(
    (PromptMessage(role="system", content="You are echo."), PromptMessage(role="user", content=f"Decide {number}."))
    for number in range(8)
)
_MODULE = "model.layers.0.self_attn.q_proj"
_CONFIG = {"peft_type": "LORA", "bias": "none", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}


def shelve(shelf: AdapterShelf, agentuid: str, generation: int) -> ShelvedAdapter:
    """An adapter of an agent's lineage, with other weights for each generation."""
    made = shelf.folder.with_name(f"made-{generation}")
    made.mkdir(parents=True)
    drawn = np.random.default_rng(generation)
    shapes = {"A": (2, 8), "B": (8, 2)}
    weights = {
        f"base_model.model.{_MODULE}.lora_{side}.weight": drawn.normal(0, 0.1, shape).astype(np.float32)
        for side, shape in shapes.items()
    }
    (made / WEIGHTS).write_bytes(save(weights))
    (made / CONFIG).write_text(json.dumps(_CONFIG))
    adapter = shelf.put(made, _identity(agentuid, generation))
    lines = []
    for prompt in PROMPTS:
        base, adapted = replies(prompt, adapter.folder)
        lines.append(ProbeLine(messages=prompt, base=base, adapter=adapted))
    shelf.record_probe(adapter.digest, KIND, lines)
    return adapter


def _identity(agentuid: str, generation: int) -> AdapterIdentity:
    return AdapterIdentity(
        base=BASE, base_digest="b" * 64, tokenizer_digest="c" * 64, template_digest="d" * 64, agentuid=agentuid,
        generation=generation, round="e" * 64, snapshot="f" * 64, method="sft",
    )  # fmt: skip
