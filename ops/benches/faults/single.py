"""One process of a whole run is killed at a time, with plug-ins: rules with a state and a window, a counting fold."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from runs import fresh_home
from torture import LINES, Live, Report, check, rows_of, wait

from conch.bus.checkpoints import state_key
from conch.cli.common import open_bus
from conch.config import Settings
from conch.home import Home
from faults.row import Row

RULE = "rule"
PROCESSES = ("agent", "consumers", "tally", "dashboard", "nats-server", RULE, RULE)
TIMES_A_RUN = 3
"""A process that dies five times in a minute is left down."""
WINDOW = 3
SCORERS = ("ordinal", "window", "tally")
PLUGINS = f"""
from pydantic import BaseModel

from conch import consumer, follow, rule
from conch_schemas import ActionTaken, RewardAssigned, Score

class Count(BaseModel):
    acts: int = 0

@rule(state=Count, range=(0, 1_000_000))
def ordinal(state, action):
    return Count(acts=state.acts + 1), state.acts + 1

@rule(window={WINDOW}, range=(0, 1_000_000))
def window(actions):
    return sum(action.cycle for action in actions)

@consumer(ActionTaken, name="tally", version="1", state=Count)
def tally(state, action):
    acts = state.acts + 1
    score = Score(component="tally", value=acts, range=(0, 1_000_000), status="scored", scorer="tally", version="1")
    said = follow(action, RewardAssigned, consumer="tally", version="1", scores=(score,), scorer="tally")
    return Count(acts=acts), said
"""


async def process_killed(times: int) -> Row:
    """kill -9 of one process of a run. Lost: a cycle without a score or a number. Doubled: an act or fact that is there
    twice. Recovered: an act that was done after the kill is recorded with all its parts."""
    return await asyncio.to_thread(_process_killed, times)


def _process_killed(times: int) -> Row:
    row, draw = Row("single process killed, with folds and plug-ins"), random.Random(7)
    killed: Counter[str] = Counter()
    report = Report()
    with fresh_home() as place:
        home = Path(place)
        (home / "plugins.py").write_text(PLUGINS)
        while row.injected < times:
            _one_run(home, row, killed, report, times, draw)
        last = _begin(home, row.injected, "--cycles", "3")
        if last.ended() != 0:
            report.wrong.append(f"the last run ended with {last.process.returncode}: {last.said}")
        check(home, report, scorers=SCORERS)
        rows = rows_of(home)
        row.lost = rows[-1]["cycle"] + 1 - len(rows) + sum(not _is_whole(one) for one in rows)
        row.wrong = report.wrong + _wrong(rows, killed)
        row.doubled, wrong = asyncio.run(_streamed(home, len(rows)))
        row.wrong += wrong
    return row


def _one_run(home: Path, row: Row, killed: Counter[str], report: Report, times: int, draw: random.Random) -> None:
    live = _begin(home, row.injected)
    try:
        wait(live, lambda live: len(live.rows) > 1)
        for name in draw.sample(PROCESSES * TIMES_A_RUN, len(PROCESSES) * TIMES_A_RUN)[: times - row.injected]:
            time.sleep(draw.uniform(0.0, 1.0))
            _kill(home, live, name, draw)
            at, began = datetime.now(UTC).isoformat(), time.perf_counter()
            killed[name] += 1
            seen = len(live.rows)
            wait(
                live,
                lambda live, at=at, seen=seen: any(one["time"] > at and _is_whole(one) for one in live.rows[seen:]),
            )
            row.seconds.append(time.perf_counter() - began)
            row.injected += 1
        live.process.send_signal(signal.SIGTERM)
        if live.ended() != 0:
            report.wrong.append(f"a run ended with {live.process.returncode}: {live.said}")
    finally:
        live.kill()


def _begin(home: Path, number: int, *options: str) -> Live:
    """A run whose script appends a word of its own to a file in each cycle."""
    script = home / f"script-{number}.txt"
    script.write_text("".join(f'TOOL: shell(command="echo {number}.{line} >> {LINES}")\n' for line in range(5000)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]  # another run beside takes the usual one while the dashboard is down
    own = ("--script", str(script), "--rules", str(home / "plugins.py"), "--ui-port", str(port))
    return Live(home, *own, *options)


def _kill(home: Path, live: Live, name: str, draw: random.Random) -> None:
    """Once it runs."""
    found: list[int] = []

    def runs(_: Live) -> bool:
        with suppress(psutil.Error, OSError, ValueError, LookupError):
            told = json.loads((home / "run.json").read_text())["processes"]
            pids = {one["name"]: one["pid"] for one in told if one["pid"] and psutil.pid_exists(one["pid"])}
            found[:] = _of_rules(pids["consumers"]) if name == RULE else [pids[name]]
        return bool(found)

    wait(live, runs)
    with suppress(ProcessLookupError):
        os.kill(draw.choice(found), signal.SIGKILL)


def _of_rules(consumers: int) -> list[int]:
    """The processes in which rules are called."""
    below = psutil.Process(consumers).children(recursive=True)
    return [
        one.pid
        for one in below
        if "conch.consumer.plugins.rule_worker" in " ".join(one.cmdline()) and not one.children()
    ]


# -- what must hold ----------------------------------------------------------------------------------------------------


def _scores(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {score["component"]: score for score in row["scores"]}


def _is_whole(row: Mapping[str, Any]) -> bool:
    return bool(row["complete"]) and _scores(row).keys() >= set(SCORERS)


def _wrong(rows: Sequence[Mapping[str, Any]], killed: Counter[str]) -> list[str]:
    """An act at which a rule's own process was killed is an error of that rule, one for each kill; it is not in the
    state. All others are scored as if nothing had happened."""
    wrong, scored, errors = [], 0, 0
    for row in rows:
        scores, cycle = _scores(row), row["cycle"]
        errors += sum(scores[name]["status"] == "error" for name in ("ordinal", "window") if name in scores)
        expected = {"tally": cycle + 1, "window": sum(range(max(0, cycle + 1 - WINDOW), cycle + 1))}
        if "ordinal" in scores and scores["ordinal"]["status"] == "scored":
            scored += 1
            expected["ordinal"] = scored
        wrong += [
            f"cycle {cycle}: {name} is {scores[name]['value']}, not {value}"
            for name, value in expected.items()
            if name in scores and scores[name]["status"] != "error" and scores[name]["value"] != value
        ]
    if errors > killed[RULE]:
        wrong.append(f"{errors} errors of rules whose processes were killed {killed[RULE]} times")
    return wrong


async def _streamed(home: Path, acts: int) -> tuple[int, list[str]]:
    """How many events stand on the stream once more, and what is wrong with the fold's state."""
    times: Counter[str] = Counter()
    async with open_bus(Home(home), Settings()) as bus:
        async for delivery in bus.read(["conch.v1.>"]):
            times[json.loads(delivery.data)["id"]] += 1
        entry = await bus.get(state_key("tally", "echo"))
    state = json.loads(entry.value)["state"] if entry is not None and entry.value else None
    wrong = [] if state == {"acts": acts} else [f"the fold's state is {state} after {acts} acts"]
    return sum(times.values()) - len(times), wrong


FAULTS = [(0.25, process_killed)]
