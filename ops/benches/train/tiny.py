"""An agent on a tiny model gets better by its own rewards, from seed to seed."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path

from train.home import TinyHome
from train.life import living, measured, promoted, proven

TOGETHER = 2
"""Seeds at once: each has phases in which one processor is idle."""


def measure(seeds: int, file: Path | None) -> None:
    """Print a row for each seed, and write them as JSON."""
    found = asyncio.run(_all(seeds))
    if file is not None:
        file.write_text(json.dumps(found, indent=1) + "\n")


async def _all(seeds: int) -> dict[str, object]:
    began, rows = time.monotonic(), list[dict[str, float]]()
    turns = asyncio.Semaphore(TOGETHER)

    async def one(seed: int) -> None:
        async with turns:
            rows.append(await _seed(seed))

    async with asyncio.TaskGroup() as group:
        for seed in range(seeds):
            group.create_task(one(seed))
    print(f"{seeds} seeds: {time.monotonic() - began:.0f} s")
    return {"seeds": sorted(rows, key=lambda row: row["seed"])}


async def _seed(seed: int) -> dict[str, float]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="conch-bench-", ignore_cleanup_errors=True) as place:
        home = TinyHome(Path(place), seed)
        await asyncio.to_thread(home.make)
        await asyncio.to_thread(home.live_first)
        await asyncio.to_thread(home.make_model)
        home.decide_by_model()
        async with living(home) as (_, followed):
            adapter = await promoted(followed)
        before, after = await measured(home, adapter)
        cycle = followed.acts_under(adapter)[-1].cycle
        assert cycle is not None
        await asyncio.to_thread(proven, home, cycle)
    row = {
        "seed": seed,
        "compliance_before": before.compliance,
        "compliance_after": after.compliance,
        "holdout_before": before.total,
        "holdout_after": after.total,
        "heldout_rule_before": before.held_out,
        "heldout_rule_after": after.held_out,
        "seconds": time.monotonic() - began,
    }
    print(
        f"seed {seed}: valid replies {before.compliance:.2f} → {after.compliance:.2f}, mean total "
        f"{before.total:+.3f} → {after.total:+.3f}, "
        f"held-out rule {before.held_out:.2f} → {after.held_out:.2f}; {row['seconds']:.0f} s, "
        f"{followed.during_training()} acts while it was trained",
        flush=True,
    )
    return row
