"""Adapters made by hand: the two files of PEFT with small matrices."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conch.training import CONFIG, WEIGHTS, AdapterIdentity

MODULES = ("model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj")
PLAIN = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "bias": "none",
    "r": 2,
    "lora_alpha": 4,
    "target_modules": ["q_proj", "down_proj"],
}
MakeAdapter = Callable[..., Path]


def safetensors(tensors: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """The bytes of a file of these matrices, 32-bit floats."""
    header, data = {}, b""
    for name, values in tensors.items():
        body = values.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(body)]}
        data += body
    said = json.dumps(header).encode()
    return struct.pack("<Q", len(said)) + said + data


def matrices(scale: float = 0.1) -> dict[str, np.ndarray[Any, Any]]:
    """A and B of both modules."""
    drawn = np.random.default_rng(0)
    sides = {"A": (2, 8), "B": (8, 2)}
    return {
        f"base_model.model.{module}.lora_{side}.weight": drawn.normal(0, scale, shape)
        for module in MODULES
        for side, shape in sides.items()
    }


@pytest.fixture
def make_adapter(tmp_path: Path) -> MakeAdapter:
    """`make_adapter("name", config={...}, tensors={...}, data=b"...")`: a directory with the two files."""

    def make(
        name: str = "made",
        *,
        config: Mapping[str, object] = {},
        tensors: Mapping[str, np.ndarray[Any, Any]] | None = None,
        data: bytes | None = None,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / WEIGHTS).write_bytes(
            safetensors(matrices() if tensors is None else tensors) if data is None else data
        )
        (folder / CONFIG).write_text(json.dumps(PLAIN | dict(config)))
        return folder

    return make


@pytest.fixture
def identity() -> AdapterIdentity:
    return AdapterIdentity(
        base="tiny",
        base_digest="b" * 64,
        tokenizer_digest="c" * 64,
        template_digest="d" * 64,
        agentuid="11111111-1111-4111-8111-111111111111",
        generation=1,
        round="e" * 64,
        snapshot="f" * 64,
        method="sft",
    )
