"""An agent on a tiny model gets better by its own rewards, from seed to seed, and planted worse adapters do not act."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from conch.home import Home
from conch.training import AdapterShelf
from train.home import TinyHome
from train.life import living, measured, promoted, proven
from train.planting import Planter

TOGETHER = 2
"""Seeds at once: each has phases in which one processor is idle."""


def measure(seeds: int, file: Path | None, kinds: tuple[str, ...]) -> None:
    """Print a row for each seed and each planted adapter, and write them as JSON."""
    found = asyncio.run(_all(seeds, kinds))
    if file is not None:
        file.write_text(json.dumps(found, indent=1) + "\n")


async def _all(seeds: int, kinds: tuple[str, ...]) -> dict[str, object]:
    began, rows, planted = time.monotonic(), list[dict[str, float]](), dict[str, str]()
    turns = asyncio.Semaphore(TOGETHER)
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as place:
        base = SharedBase(Path(place) / "base")

        async def one(seed: int) -> None:
            async with turns:
                rows.append(await _seed(seed, base, kinds[seed::seeds], planted))

        async with asyncio.TaskGroup() as group:
            for seed in range(seeds):
                group.create_task(one(seed))
    print(f"{seeds} seeds: {time.monotonic() - began:.0f} s")
    return {"seeds": sorted(rows, key=lambda row: row["seed"]), "planted": {kind: planted[kind] for kind in kinds}}


@dataclass
class SharedBase:
    """The tiny model of all lives. The first of them that has lived makes it."""

    folder: Path
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def make(self, home: TinyHome) -> None:
        """Make it of this home's prompts, where no other life has made it. Others wait meanwhile."""
        async with self.turn:
            if not self.folder.exists():
                await asyncio.to_thread(home.make_model)


async def _seed(seed: int, base: SharedBase, kinds: tuple[str, ...], planted: dict[str, str]) -> dict[str, float]:
    """A life; `kinds` are planted in it once an adapter acts, and what became of each is written to `planted`."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="conch-bench-", ignore_cleanup_errors=True) as place:
        home = TinyHome(Path(place), seed, base.folder)
        await asyncio.to_thread(home.make)
        await asyncio.to_thread(home.live_first)
        await base.make(home)
        home.decide_by_model()
        async with living(home) as (bus, followed):
            adapter = await promoted(followed)
            if not followed.during_training():
                raise RuntimeError("the agent did not act while it was trained")
            lived = time.monotonic() - began
            planter = Planter(home, bus, followed, AdapterShelf(Home(home.path).adapters).get(adapter))
            for kind in kinds:
                planted[kind], why = await planter.plant(kind)
                at = time.monotonic() - began - lived
                print(f"planted {kind}: {planted[kind]}; {at:.0f} s since the first. {why}", flush=True)
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
