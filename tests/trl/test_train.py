"""Exports of a real run in TRL's own trainers: SFT, DPO, KTO and GRPO take the files as they are."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

from tests.trl.test_grpo import HOW

CYCLES = 40
"""So many have replies of different worth in one state."""


@pytest.mark.timeout(900)
async def test_trainers_of_trl_take_the_exports_of_a_real_run(
    tmp_path: Path, lacking: Callable[[str], NoReturn]
) -> None:
    """Two steps of each trainer, with a tiny model; every loss is finite."""
    if not find_spec("trl"):
        lacking(HOW)
    conch = [sys.executable, "-m", "conch.cli.main"]
    home = {**os.environ, "CONCH_HOME": str(tmp_path / "home")}
    await _done([*conch, "run", "--cycles", str(CYCLES)], home)
    formats = {"sft": ["--positive", "0"], "dpo": ["--margin", "0.05"], "kto": [], "grpo": []}
    for name, bounds in formats.items():
        await _done([*conch, "data", "export", "--format", name, "--snapshot", name, *bounds], home)
    folders = [str(tmp_path / "home" / "data" / name) for name in formats]

    out = await _done(
        [sys.executable, str(Path(__file__).with_name("train.py")), str(tmp_path / "trained"), *folders],
        {"HF_HUB_OFFLINE": "1", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )

    assert json.loads(out.splitlines()[-1]) == {name: {"steps": 2, "finite": True} for name in formats}


async def _done(command: list[str], environ: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-2000:]
    return out.decode()
