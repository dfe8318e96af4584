"""SmolLM2 with an adapter of its own experiences beside its base: on held-out states, and over the cycles it lived.

The home is one of `conch demo learn`; where none is named, a demonstration is run first. Both decode each held-out
state freely, with the same seed, through llama.cpp, and act in a copy of its workspace. Mean totals of the reflex mind
and of blind choice come from runs of their own in the same workspace.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from mind.runs_of import lived
from runs import CONCH, fresh_home

from conch.cli.common import CommonOptions
from conch.config import Settings
from conch.experience import ScoredSince, store_location
from conch.home import Home
from conch.report.trained import by_adapter
from conch.rounds import RoundPlan, acting_engine
from conch.rounds.judging.samples import SampleRun
from conch.rounds.judging.scoring import candidate_scorer
from conch.rounds.making.held_out import freeze_held_out, held_out_cycles
from conch.training import AdapterShelf
from conch.training.gate import GateSample
from conch.values import in_force
from conch.views import read_lineage
from train.gate import held_out

SEED = 7
"""Of the comparison; the gate's own is another one."""
CYCLES = 200
"""Of the runs of reflex mind and blind choice."""


def measure(quick: bool, home: Path | None, states: int) -> None:
    """Print all rows. `quick`: the sums alone, of made-up samples; no figures to quote."""
    if quick:
        _tell(held_out(np.random.default_rng(0), 20, 0.1))
        return
    if home is not None:
        _of_home(Home(home), states)
        return
    with fresh_home() as fresh:
        began = time.monotonic()
        subprocess.run([CONCH, "demo", "learn", "--home", fresh], check=True)
        print(f"conch demo learn: {(time.monotonic() - began) / 60:.1f} minutes, load {os.getloadavg()[0]:.1f}")
        _of_home(Home(Path(fresh)), states)


def _of_home(home: Home, states: int) -> None:
    settings = CommonOptions(home=home.path).settings()
    with store_location(settings.store.url, home.path).reader() as reader:
        state = read_lineage(reader, settings.agent)
        made = [one for one in state.rounds if one.adapter is not None and one.finished is not None]
        if not made:
            sys.exit(f"no round has made an adapter in {home.path}: conch demo learn --home {home.path}")
        chosen = next((one for one in made if one.adapter == state.adapter), made[-1])
        plan, done = RoundPlan.read(home, chosen.started.round), chosen.finished
        assert done is not None
        assert chosen.adapter is not None
        print(
            f"generation {plan.generation}, {chosen.phase}: {plan.rows} rows, {done.tokens:,} tokens, "
            f"{done.seconds / 60:.1f} minutes, {done.figures['peak_mib']:,.0f} MiB"
        )
        for one in by_adapter(reader.cycles.walk(settings.agent, ScoredSince(cycle=0))):
            who = "base" if one.adapter is None else one.adapter[:12]
            print(
                f"lived, {who}: {one.cycles} cycles, mean total {one.mean:+.3f}, {one.valid} of {one.free} free valid"
            )
        with TemporaryDirectory(prefix="conch-bench-") as place:
            found = freeze_held_out(reader, home, settings.agent, plan.states, states, Path(place) / "held-out")
            print(f"{found} held-out states were kept, of {states} asked for")
            began = time.monotonic()
            _tell(asyncio.run(_compared(settings, home, Path(place), chosen.adapter)))
    print(f"compared in {(time.monotonic() - began) / 60:.1f} minutes, load {os.getloadavg()[0]:.1f}")
    for mind in ("reflex", "blind choice"):
        run = lived(mind, 1, CYCLES)
        print(f"{mind}: {CYCLES} cycles, mean total {statistics.fmean(run.totals):+.3f}, {run.goals} goals reached")


async def _compared(settings: Settings, home: Home, place: Path, digest: str) -> list[GateSample]:
    mind = settings.mind.model_copy(update={"free_share": 1.0})
    free = settings.model_copy(update={"mind": mind})
    candidate = AdapterShelf(home.adapters).get(digest)
    async with acting_engine(free, home) as engine, candidate_scorer(free, home) as scorer:
        run = SampleRun(engine, free, in_force(free.values), scorer, place / "samples.jsonl")
        return await run.compare(held_out_cycles(free.agent, place / "held-out"), None, candidate, SEED)


def _tell(samples: Sequence[GateSample]) -> None:
    if not samples:
        sys.exit("no held-out state could be compared")
    of = len(samples)
    before = np.array([one.incumbent.total for one in samples])
    after = np.array([one.candidate.total for one in samples])
    drawn = np.random.default_rng(0).integers(of, size=(10_000, of))
    low, high = np.quantile((after - before)[drawn].mean(axis=1), [0.025, 0.975])
    valid = [sum(one.incumbent.valid for one in samples), sum(one.candidate.valid for one in samples)]
    print(
        f"{of} held-out states: mean total {before.mean():+.3f} of the base, {after.mean():+.3f} with the adapter, "
        f"difference {(after - before).mean():+.3f}, {low:+.3f} to {high:+.3f} at 95 % (bootstrap over states); "
        f"valid free replies {valid[0]} and {valid[1]}"
    )
