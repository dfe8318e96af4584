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

HOW = "there is no TRL: pip install -e '.[train]'"


@pytest.mark.timeout(300)
async def test_rules_are_reward_functions_of_a_real_training(
    tmp_path: Path, lacking: Callable[[str], NoReturn]
) -> None:
    """A step is trained; then texts and messages alike give each rule's values, with a gap where there is no score."""
    if not find_spec("trl"):
        lacking(HOW)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
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
