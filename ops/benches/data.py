"""Data sets: an export's rows a second, its processor time for each act, and its memory.

    ops/bench data [--cycles 20000] [--formats cycles sft dpo] [--store FILE] [--quick]

A store of made-up cycles, in each of them a prompt and a reply of its own, in one of 2,000 states. `conch data export`
runs on it as a process of its own: processor time and peak memory are those of the whole command. `--store` keeps the
store in that file, and reads it where it is there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path

from history import BEGIN, facts_of
from runs import CONCH, fresh_home, options

from conch.experience import SqliteStore
from conch.home import Home
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    Decoding,
    Event,
    MarkWitnessed,
    PolicySet,
    PromptMessage,
    RewardAssigned,
    ThoughtFormed,
    consequence_id,
    cycle_event_id,
    source_of,
)

STATES = 2000
PER_COMMIT = 5000
"""Facts."""
WORDS = "kelp reed tide gull moss dune salt wave crab rope mast sail buoy reef silt foam fog pier net oar"
SYSTEM = "You are echo, an agent that keeps the notes of a small harbour. Answer with exactly one line.\n" * 12


def cycles_of(home: Path, cycles: int) -> Iterator[Event]:
    """The facts of so many cycles, without thoughts and marks: no data set reads them."""
    draw, agentuid = random.Random(1), Home(home).agentuid("echo")
    yield PolicySet(
        id=consequence_id(agentuid, "run", "p1", PolicySet),
        source=source_of("echo", agentuid),
        agent="echo",
        time=BEGIN,
        mind="scripted",
        model="m",
        system_prompt=SYSTEM,
        policy="p1",
    )
    for fact in facts_of(home, cycles):
        if isinstance(fact, ActionTaken):
            yield from decided_and_taken(fact, draw)
        elif isinstance(fact, RewardAssigned):
            score = fact.scores[0].model_copy(update={"value": round(draw.uniform(-0.5, 1), 3)})
            yield fact.model_copy(update={"scores": (score,)})
        elif not isinstance(fact, ThoughtFormed | MarkWitnessed):
            yield fact


def decided_and_taken(act: ActionTaken, draw: random.Random) -> Iterator[Event]:
    """The act with a reply and a state of its own, and the prompt that it answers."""
    words = draw.choices(WORDS.split(), k=60)
    said = f"Cycle {act.cycle}.\nYour needs:\n- curiosity 0.{draw.randrange(100):02}\nYou saw: {' '.join(words)}.\n"
    raw = f'TOOL: filesystem(operation="read", path="notes/{"-".join(words[:4])}.md")'
    digest = hashlib.sha256(said.encode()).hexdigest()
    common = {
        "raw": raw,
        "raw_length": len(raw),
        "raw_sha256": hashlib.sha256(raw.encode()).hexdigest(),
        "action": act.action.model_copy(update={"args": {"operation": "read", "path": raw[40:-2]}}),
        "policy": "p1",
    }
    yield ActionDecided(
        id=cycle_event_id(str(act.action_id), ActionDecided),
        source=act.source,
        agent=act.agent,
        cycle=act.cycle,
        action_id=act.action_id,
        time=act.time,
        messages=(PromptMessage(role="user", content=said),),
        model="m",
        finish_reason="stop",
        ms=1.0,
        **common,
    )
    state = Decoding(engine="made up", model="m", prompt_sha256=digest, state_key=f"state {draw.randrange(STATES)}")
    yield act.model_copy(update=common | {"thought": " ".join(reversed(words)), "decoding": state})


def fill(path: Path, home: Path, cycles: int) -> None:
    """The store, with so many cycles."""
    with SqliteStore(path) as store:
        store.set_epoch("made up")
        facts, seq, published = cycles_of(home, cycles), 1, []
        while batch := list(enumerate(islice(facts, PER_COMMIT), seq)):
            seq += len(batch)
            now = BEGIN + timedelta(seconds=seq)
            published = [one.id for one in store.apply(batch, upto=seq - 1, now=now, published=published)]
        store.mark_published(published)


def exported(home: Path, format: str) -> str:
    """One export as a row of the table."""
    command = [str(CONCH), "data", "export", "--home", str(home), "--format", format, "--json"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    said = json.loads(process.stdout.read())
    _, status, used = os.wait4(process.pid, 0)
    took, manifest = time.perf_counter() - began, said["manifest"]
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    busy, seen, rows = used.ru_utime + used.ru_stime, manifest["rows_seen"], manifest["rows_in"]
    return (
        f"  {format}: {rows:,} rows of {seen:,} acts and pairs, {rows / took:,.0f} rows/s; {busy / seen * 1e6:.1f} µs "
        f"of processor time an act or pair, {used.ru_maxrss / 1024:.0f} MiB at most"
    )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=20_000)
    parser.add_argument("--formats", nargs="+", default=["cycles", "sft", "dpo"])
    parser.add_argument("--store", type=Path, help="keep the store here")
    chosen = options(parser, cycles=300)
    with fresh_home() as directory:
        home = Home(Path(directory) / "home")
        home.make()
        path = chosen.store or home.path / "store.db"
        if not path.exists():
            fill(path, home.path, chosen.cycles)
        if path != home.path / "store.db":
            (home.path / "store.db").symlink_to(path.resolve())
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        print(f"{os.cpu_count()} processors, load {load}", flush=True)
        for format in chosen.formats:
            print(exported(home.path, format), flush=True)


if __name__ == "__main__":
    main()
