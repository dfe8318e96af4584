"""Rules in TRL's own GRPO trainer: its code calls them, and what they say arrives in its table of rewards."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parents[2]
APART = ROOT / ".venv-trl" / "bin" / "python"
"""An environment of its own: TRL brings a gigabyte that nothing else here needs."""
HOW = (
    "there is no TRL: python3 -m venv .venv-trl && .venv-trl/bin/pip install -c requirements.lock "
    "torch==2.13.0 trl==1.16.0 -e ."
)


@pytest.mark.timeout(300)
async def test_rules_are_reward_functions_of_a_real_training(
    tmp_path: Path, lacking: Callable[[str], NoReturn]
) -> None:
    """A step is trained; then texts and messages alike give each rule's values, with a gap where there is no score."""
    python = Path(sys.executable) if find_spec("trl") else APART
    if not python.exists():
        lacking(HOW)
    process = await asyncio.create_subprocess_exec(
        python,
        Path(__file__).with_name("grpo.py"),
        tmp_path,
        env={"HF_HUB_OFFLINE": "1", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-2000:]

    told = json.loads(out.splitlines()[-1])
    trained, texts, talks = told["tables"]
    assert told["names"] == ["form", "execution", "broken"]
    assert [len(row) for row in trained] == [3] * 4
    assert texts == talks == [[0.5, 0.2, None], [0.5, 1.0, None], [-1.0, 0.0, None], [0.5, None, None]]
