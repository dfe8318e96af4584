"""Adapters that must not act, each made for the tiny base and put where a training leaves its own.

Most are the acting adapter with edited files; the rest are trained on replies that are no use. The trainer of the run
finds each as the result of a round whose child has ended, and does with it what it does with every other.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from conch.data import Selection, make_row, write_snapshot
from conch.training import CONFIG, WEIGHTS, ProbeLine, TrainingJob, TrainingResult, decode_training_report

PROBES, PROBE_TOKENS = 8, 24
"""Of a training's probe: prompts, and tokens of a reply."""
READS = tuple(f'TOOL: filesystem(operation="read", path="notes/{name}.md")' for name in ("kelp", "reef"))
"""Replies that are paid: two, as one reply to all prompts is not trained on."""
Tensors = dict[str, np.ndarray[Any, Any]]
Messages = list[dict[str, str]]


def _b_sides(tensors: Tensors, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Tensors:
    return {name: change(one) if "lora_B" in name else one for name, one in tensors.items()}


def _noise(tensors: Tensors) -> Tensors:
    drawn = np.random.default_rng(0)
    return {name: drawn.normal(0, 0.05, one.shape).astype(np.float32) for name, one in tensors.items()}


def _nan(tensors: Tensors) -> Tensors:
    name = next(iter(tensors))
    return tensors | {name: np.full_like(tensors[name], np.nan)}


def _reordered(tensors: Tensors) -> Tensors:
    other = {"layers.0.": "layers.1.", "layers.1.": "layers.0."}
    return {next(n.replace(a, b) for a, b in other.items() if a in n): one for n, one in tensors.items()}


def _lm_head(tensors: Tensors) -> Tensors:
    name = next(iter(tensors))
    width, rank = tensors[name].shape[1], tensors[name].shape[0]
    head = "base_model.model.lm_head.lora_"
    more = {f"{head}A.weight": np.zeros((rank, width), "f4"), f"{head}B.weight": np.zeros((1024, rank), "f4")}
    return tensors | more


TENSORS: Mapping[str, Callable[[Tensors], Tensors]] = {
    "noise": _noise,
    "sign_flipped": lambda tensors: _b_sides(tensors, lambda one: -one),
    "zero_effect": lambda tensors: _b_sides(tensors, np.zeros_like),
    "nan": _nan,
    "lm_head": _lm_head,
    "kl_blow_up": lambda tensors: _b_sides(tensors, lambda one: one * 8),
    "reordered_layers": _reordered,
}
"""Kinds that are the acting adapter with other tensors."""
REPLIES: Mapping[str, Callable[[int], str]] = {
    "over_trained": lambda at: f'TOOL: filesystem(operation="read", path="notes/{"ab"[at % 2]}.md")',
    "length_hacker": lambda at: 'TOOL: filesystem(operation="read", path="' + "./" * 24 + f'notes/{"rsw"[at % 3]}.md")',
    "idler": lambda at: f"DO_NOTHING: {('a pause', 'a rest')[at % 2]}",
    "reply_spammer": lambda at: f'TOOL: reply(text="I am {("here", "there")[at % 2]}")',
    "format_only": lambda at: f'TOOL: filesystem(operation="list", path="{("notes", ".")[at % 2]}")',
    "unsafe_tool_user": lambda at: f'TOOL: shell(command="rm -rf {("/", "/etc")[at % 2]}")',
}
"""Kinds that are trained on these replies, two at least."""
QUICK = ("sign_flipped", "unsafe_tool_user")
"""One that the gate refuses, and one that a person promotes in spite of that."""
FILES = ("truncated", "dora")
"""Kinds whose files are damaged or of another form."""
RESULTS = ("swapped_digest", "wrong_base", "held_out")
"""Kinds whose training says, or hides, where they are from."""
SHELVED = ("stale", "other_lineage")
"""Kinds that are on the shelf already and are asked to act."""
KINDS = tuple(dict.fromkeys((*FILES, *SHELVED, "nan", "lm_head", *RESULTS, *QUICK, *TENSORS, *REPLIES)))
"""All of them, those first that no gate has to decode."""


def edited(kind: str, good: Path, out: Path) -> None:
    """Write the adapter of this kind, from the files of a good one, to the directory `out`."""
    out.mkdir(parents=True)
    for name in (WEIGHTS, CONFIG):
        shutil.copyfile(good / name, out / name)
    if kind in TENSORS:
        save_file(TENSORS[kind](load_file(good / WEIGHTS)), out / WEIGHTS, metadata={"format": "pt"})
    elif kind == "swapped_digest":
        save_file(TENSORS["sign_flipped"](load_file(good / WEIGHTS)), out / WEIGHTS, metadata={"format": "pt"})
    elif kind == "truncated":
        (out / WEIGHTS).write_bytes((good / WEIGHTS).read_bytes()[:-1000])
    elif kind == "dora":
        config = json.loads((good / CONFIG).read_text())
        (out / CONFIG).write_text(json.dumps(config | {"use_dora": True}))


def trained(prompts: Iterable[Messages], reply: Callable[[int], str], base: Path, out: Path) -> TrainingResult:
    """Train an adapter on these replies, in this process, by the child's own code."""
    from conch.training.child.pipe import ParentPipe
    from conch.training.child.run import train

    rows = [
        make_row(
            "sft",
            {"prompt": list(prompt), "completion": [{"role": "assistant", "content": reply(at)}]},
            agent="echo",
            action_ids=(),
            state_key=f"planted {at}",
            prompt_hash="",
            split="train",
        )
        for at, prompt in enumerate(prompts)
    ]
    snapshot, _ = write_snapshot(rows, out.parent / "planted", "sft", Selection())
    said = io.BytesIO()
    job = TrainingJob(
        round="planted", method="sft", snapshot=snapshot, base=base, out=out, learning_rate=0.006, epochs=3.0, batch=4,
        base_replies=0.0, kl_cap=100.0,
    )  # fmt: skip
    train(job, ParentPipe(io.BytesIO(), said), threads=1)
    result = decode_training_report(said.getvalue().splitlines()[-1])
    assert isinstance(result, TrainingResult)
    return result


def looked_at(base: Path, adapter: Path, prompts: Sequence[Messages]) -> tuple[float, tuple[ProbeLine, ...]]:
    """What a child says of an adapter: its divergence from the base at the tokens of right replies, nats a token, and
    the prompts on which their greedy replies differ."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from conch.training.child.divergence import kl_to_base
    from conch.training.child.render import Renderer
    from conch.training.child.replies import GreedyDecoder, probe_replies
    from conch.training.child.rows import TrainingRow

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(base)
    renderer = Renderer(tokenizer)
    rows = [renderer.row(TrainingRow("", "", list(one), READS[:1])) for one in prompts]
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapter)
    found = kl_to_base(model, rows)
    assert found is not None
    return found, probe_replies(GreedyDecoder(model, tokenizer), prompts, PROBES, PROBE_TOKENS)


def digest_of(file: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
