"""A program that speaks the protocol of the training child: it writes a small adapter, or fails as it is told.

The first argument is a file: its text names how the next jobs end, one word a job, the last word for all others.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Any

PLAIN = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "bias": "none",
    "r": 2,
    "lora_alpha": 4,
    "target_modules": ["q_proj"],
}
MODULE = "base_model.model.model.layers.0.self_attn.q_proj"


def said(**message: Any) -> None:
    """Write one report."""
    print(json.dumps(message), flush=True)


def write_adapter(out: Path, value: float) -> None:
    """The two files of PEFT, with matrices of one value."""
    out.mkdir(parents=True, exist_ok=True)
    header, data = {}, b""
    for side, shape in (("A", (2, 8)), ("B", (8, 2))):
        body = struct.pack("<16f", *[value] * 16)
        name = f"{MODULE}.lora_{side}.weight"
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(body)]}
        data += body
    text = json.dumps(header).encode()
    (out / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (out / "adapter_config.json").write_text(json.dumps(PLAIN))


def main() -> None:
    """Do one job."""
    told = Path(sys.argv[1])
    words = told.read_text().split()
    if len(words) > 1:
        told.write_text(" ".join(words[1:]))
    how, job = words[0], json.loads(sys.stdin.readline())
    (told.with_suffix(".jobs")).open("a").write(json.dumps(job) + "\n")
    (told.with_suffix(".pid")).write_text(str(os.getpid()))
    loss = "NaN" if how == "nan" else 0.5
    if job["dry_run"] and how == "good":
        said(
            kind="dry_run", round=job["round"], method=job["method"],
            digests={"base": "b" * 64, "tokenizer": "c" * 64, "template": "d" * 64},
            counts={"rows": 10, "new_rows": 10, "tokens": 1000, "longest": 120}, steps=6, minutes=2.0, mib=700.0,
            how="it was told so",
        )  # fmt: skip
        return
    step = {"kind": "progressed", "stage": job["method"], "step": 1, "steps": 2, "loss": 0.7, "seconds_left": 1.0}
    said(**step)
    said(**step | {"loss": None, "eval_loss": 0.6, "kl": 0.1})
    if how == "hang":
        time.sleep(600)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "silent":
        print("the words of a library", file=sys.stderr)
        sys.exit(3)
    if how == "chatter":
        print("Loading weights", flush=True)
        time.sleep(600)
    if how == "failed":
        said(kind="failed", round=job["round"], reason="the loss rose", can_retry=False)
        sys.exit(1)
    print(json.dumps({**step, "step": 2, "loss": loss}).replace('"NaN"', "NaN"), flush=True)
    out = Path(job["out"])
    write_adapter(out, 0.1 if how != "worse" else 0.2)
    if how == "hostile":
        (out / "adapter_config.json").write_text(json.dumps(PLAIN | {"use_dora": True}))
    message = {"role": "user", "content": "What now?"}
    manifest = json.loads((Path(job["snapshot"]) / "manifest.json").read_text())
    weights, config = (
        hashlib.sha256((out / name).read_bytes()).hexdigest()
        for name in ("adapter_model.safetensors", "adapter_config.json")
    )
    said(
        kind="finished", round=job["round"], method=job["method"],
        digests={"base": "b" * 64, "tokenizer": "c" * 64, "template": "d" * 64},
        snapshot_digest=manifest["digest"] if how != "other-data" else "e" * 64,
        weights_sha256=weights if how != "swapped" else "f" * 64, config_sha256=config, lora=job["lora"],
        counts={"rows": 10, "new_rows": 10, "tokens": 1000},
        figures={"loss": 0.5, "kl": 0.3}, probes=[{"messages": [message], "base": "noise", "adapter": "TOOL"}],
        seconds=1.0, peak_mib=100.0,
    )  # fmt: skip


if __name__ == "__main__":
    main()
