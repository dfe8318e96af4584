"""Measure a small model as a mind: ops/bench mind [--model M] [--generations N] [--cycles N] [--seeds N]
[--held-out WORKSPACE ...] [--held-out-seeds N] [--quick].

SmolLM2-135M on this machine's processors, with the prompt of small models, in the default workspace, for whose tasks
that prompt was tuned, and in two held-out workspaces. What it decides is held against the reflex mind and against a
blind choice among that mind's templates: by goals reached and by the mean total. Brackets are 95 % bootstrap intervals.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics

from learning import HELD_OUT, interval
from runs import options

from conch.config import Settings
from mind.replies import AT_ONCE, Replies, ask, engine, experienced, memory_mib, prompts, right
from mind.runs_of import MINDS, RunFigures, lived


def main() -> None:
    """Print each row as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="ops/bench mind", description=__doc__)
    parser.add_argument("--model", default="smollm2", help="name or GGUF file, of the replies")
    parser.add_argument(
        "--generations", type=int, default=1000, help="constrained replies; a twentieth as many free ones"
    )
    parser.add_argument("--seeds", type=int, default=3, help="agents of a run in the default workspace")
    parser.add_argument("--held-out", nargs="*", choices=HELD_OUT, default=[*HELD_OUT], help="the other workspaces")
    parser.add_argument("--held-out-seeds", type=int, default=1, help="runs of one agent in each other workspace")
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument(
        "--agents", type=int, nargs="+", default=[1, 10], help="numbers of agents whose pace is measured"
    )
    chosen = options(parser, generations=4, seeds=1, cycles=2, held_out=["backlog"], agents=[2])
    _row("load", f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    asyncio.run(_replies(chosen))
    for mind in MINDS:
        _print_run(mind, lived(mind, chosen.seeds, chosen.cycles))
    for name in chosen.held_out:
        for mind, seed in itertools.product(MINDS, range(1, chosen.held_out_seeds + 1)):
            _print_run(f"{name}, seed {seed}: {mind}", lived(mind, 1, chosen.cycles, HELD_OUT[name], seed))
    for agents in chosen.agents:
        found = lived("SmolLM2", agents, max(2, chosen.cycles // (5 * agents)))
        _row(f"{agents} agents", f"{found.a_minute:.1f} decisions a minute; first recorded after {found.first:.1f} s")
    _row("load", f"{os.getloadavg()[0]:.1f} at the end")


async def _replies(chosen: argparse.Namespace) -> None:
    async with engine(_settings(chosen.model, free=0.0)) as (running, asking):
        found = await ask(asking, prompts(chosen.generations))
        _valid("constrained", found)
        said = f"{found.tokens / found.seconds:.1f} tokens/s, {len(found.texts) / found.seconds:.2f} replies/s"
        _row("speed", f"{said}, with the reading of the prompts, {AT_ONCE} waiting")
        _row("memory", f"{memory_mib(running):.0f} MiB of the engine; loaded in {running.seconds:.1f} s")
        for label, change in (("plain", lambda prompt: prompt), ("with rewards and lessons", experienced)):
            good, asked = await right(asking, chosen.seeds, change)
            _row(f"right calls, {label}", f"{good} of {asked}")
    async with engine(_settings(chosen.model, free=1.0)) as (_, asking):
        _valid("free", await ask(asking, prompts(max(2, chosen.generations // 20))))


def _settings(model: str, *, free: float) -> Settings:
    return Settings.model_validate({"mind": {"kind": "local", "model": model, "free_share": free, "timeout": 600}})


def _valid(name: str, found: Replies) -> None:
    _row(f"{name} replies", f"{found.valid} of {len(found.texts)} valid, {found.idle} idle")


def _print_run(name: str, found: RunFigures) -> None:
    low, high = interval([found.totals])
    _row(
        name,
        f"goals reached {found.goals}, {found.rate:.1f} per 100 cycles; mean total "
        f"{statistics.fmean(found.totals):+.3f} [{low:+.3f}, {high:+.3f}]; acts valid {found.valid:.0%}, succeeded "
        f"{found.succeeded:.0%}, idle {found.idle:.0%}; {found.a_minute:.1f} decisions a minute",
    )
    if found.sections:
        each = ", ".join(f"{part} {tokens:.0f}" for part, tokens in found.sections.items())
        _row("tokens a cycle", f"{sum(found.sections.values()):.0f} by the {found.counted}: {each}")


def _row(name: str, said: str) -> None:
    print(f"{name}: {said}", flush=True)


if __name__ == "__main__":
    main()
