"""The life of a tiny model in a run of `conch`: it acts, is trained, gated, tried and promoted, and is measured."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from runs import CONCH

import conch
from conch.config import load
from conch.consumer.plugins import discover, reserved
from conch.experience import store_location
from conch.home import Home
from conch.rounds import (
    RoundPlan,
    SampleRun,
    acting_engine,
    candidate_scorer,
    freeze_held_out,
    held_out_cycles,
)
from conch.training import AdapterShelf, LineageState, after
from conch.training.gate import GateReply, GateSample
from conch.values import in_force
from conch_schemas import OF_TRAINING, ActionTaken, Event
from train.home import AGENT, STATES, TinyHome

BEGIN_SECONDS = 120.0
"""Longest wait until the run is up. On a busy machine torch is imported in 20 s."""
LIFE_SECONDS = 1800.0
"""Longest life until a promotion."""
ACTS_AFTER = 5
"""Acts under the promoted adapter that are waited for."""
SEED = 2
"""Of the replies that are measured; the gate's are of another one."""


@dataclass
class Followed:
    """What the stream of a run says."""

    state: LineageState = field(default_factory=LineageState)
    acts: list[ActionTaken] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def hear(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, ActionTaken):
            self.acts.append(event)
        else:
            self.state = after(self.state, event)

    def acts_under(self, adapter: str) -> list[ActionTaken]:
        """The acts that this adapter decided."""
        return [one for one in self.acts if one.decoding is not None and one.decoding.adapter == adapter]

    def during_training(self) -> int:
        """Acts between the beginning and the end of the first training."""
        round = self.state.rounds[0]
        if round.finished is None:
            return 0
        return sum(round.started.time <= one.time <= round.finished.time for one in self.acts)


@dataclass(frozen=True)
class Measured:
    """What one of the two did in held-out states."""

    compliance: float
    """Share of valid replies."""
    total: float
    """Mean total."""
    held_out: float
    """Mean value of the held-out rule."""

    @classmethod
    def of(cls, replies: list[GateReply]) -> Measured:
        """The means of these replies."""
        return cls(
            fmean(one.valid for one in replies),
            fmean(one.total or 0.0 for one in replies),
            fmean(one.held_out or 0.0 for one in replies),
        )


@asynccontextmanager
async def living(home: TinyHome) -> AsyncIterator[tuple[conch.Bus, Followed]]:
    """A run in the home until the context is left, its bus, and what is heard on it."""
    with (home.place / "run.out").open("ab") as out:
        command = [str(CONCH), "run", "--home", str(home.path), "--rules", str(home.rules), "--json"]
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        until = time.monotonic() + BEGIN_SECONDS
        while Home(home.path).running() is None:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the run did not begin: {(home.place / 'run.out').read_text()[-2000:]}")
            await asyncio.sleep(0.2)
        followed = Followed()
        async with conch.connect(home=home.path) as bus, asyncio.TaskGroup() as group:
            following = group.create_task(_follow(bus, followed))
            yield bus, followed
            following.cancel()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait()


async def _follow(bus: conch.Bus, followed: Followed) -> None:
    async for event in conch.subscribe(bus, ActionTaken, *OF_TRAINING, after=0):
        followed.hear(event)
        async with followed.changed:
            followed.changed.notify_all()


async def promoted(followed: Followed) -> str:
    """Wait for the first promotion and some acts under it: the adapter. Raises RuntimeError where the round ended in
    another way."""

    def done() -> bool:
        round = followed.state.round
        if round is not None and round.phase in ("refused", "failed", "rolled back"):
            return True
        return followed.state.adapter is not None and len(followed.acts_under(followed.state.adapter)) >= ACTS_AFTER

    async with asyncio.timeout(LIFE_SECONDS), followed.changed:
        await followed.changed.wait_for(done)
    round, adapter = followed.state.round, followed.state.adapter
    if adapter is None:
        assert round is not None
        said = round.refused or round.failed
        raise RuntimeError(f"the round is {round.phase}: {said.why if said is not None else 'without a reason'}")
    return adapter


async def measured(home: TinyHome, adapter: str, states: int = STATES) -> tuple[Measured, Measured]:
    """Base and adapter on the newest decisions in states that were not trained on, decoded anew by the engine that
    acts, each tried in a copy of its workspace."""
    place = Home(home.path)
    settings = load(None, place, {}).model_copy(update={"agent": AGENT})
    found, rules = AdapterShelf(place.adapters).get(adapter), discover([str(home.rules)], reserved(settings)).rules
    trained = RoundPlan.read(place, found.identity.round).states
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as folder:
        kept = Path(folder) / "held-out"
        with store_location(None, home.path).reader() as reader:
            freeze_held_out(reader, place, AGENT, trained, states, kept)
        async with acting_engine(settings, place) as engine, candidate_scorer(settings, place, rules) as scorer:
            run = SampleRun(engine, settings, in_force(settings.values), scorer, Path(folder) / "samples.jsonl")
            samples: list[GateSample] = await run.compare(held_out_cycles(AGENT, kept), None, found, SEED)
    return Measured.of([one.incumbent for one in samples]), Measured.of([one.candidate for one in samples])


def proven(home: TinyHome, cycle: int) -> None:
    """The log proves the act of this cycle, and no mark of it was changed. Raises RuntimeError where it does not."""
    proof = json.loads(home.conch("train", "prove", str(cycle), "--home", str(home.path), "--json"))
    broken = [one["name"] for one in proof["steps"] if one["holds"] is not True]
    if broken or not proof["adapter"]:
        raise RuntimeError(f"the proof of cycle {cycle} lacks {', '.join(broken) or 'an adapter'}")
    home.conch("mark", "verify", "--home", str(home.path))
