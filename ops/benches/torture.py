"""Kill -9 at random moments, the whole process group and the nats-server alone; start again; check what must hold."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from runs import CONCH, fresh_home, options

from conch.config import RewardSettings
from conch.rewards import parts_of_act, weight_set

START_SECONDS = 4.0
"""A group is killed so long after its start at most: half of it is starting up."""
SERVER_KILLS_A_RUN = 3
"""A nats-server that dies five times in a minute ends its run, as it should."""
PATIENCE = 60.0
"""Seconds to wait for a sign of life; then something hangs."""
LINES = "lines.txt"


class Live:
    """A `conch run` in a process group of its own."""

    def __init__(self, home: Path, *options: str) -> None:
        command = [str(CONCH), "run", "--home", str(home), "--interval", "0", "--json", *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.rows: list[dict] = []
        self.said = ""
        self._readers = [threading.Thread(target=self._rows), threading.Thread(target=self._words)]
        for reader in self._readers:
            reader.start()

    def _rows(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self.rows.append(json.loads(line))
            except ValueError:
                self.said += f"stdout: {line}"  # cut off by a kill, or what nobody asked for

    def _words(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def kill(self) -> None:
        """The whole group at once; what a row said before is kept."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.ended()

    def ended(self) -> int:
        """Its exit status, once it and its pipes are at their end."""
        status = self.process.wait(timeout=PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
        return status


@dataclass
class Report:
    """What was done, and what does not hold (nothing, when all is well)."""

    kills: int = 0
    server_kills: int = 0
    cycles: int = 0
    unknown: int = 0
    """Acts whose outcome a kill left unknown."""
    events: int = 0
    wrong: list[str] = field(default_factory=list)


def torture(home: Path, *, kills: int, server_kills: int, seed: int = 0) -> Report:
    """Kill a run of `home` so often, start it again each time, and check at the end."""
    draw = random.Random(seed)
    report = Report()
    Live(home, "--cycles", "1").ended()
    for number in range(kills):
        live = Live(home, *_options(home, number))
        time.sleep(draw.uniform(0.1, START_SECONDS))
        if (status := live.process.poll()) is not None:
            report.wrong.append(f"run {number} ended by itself with {status}: {live.said}")
        live.kill()
        report.kills += 1
    number = kills
    while report.server_kills < server_kills:
        live = Live(home, *_options(home, number))
        for _ in range(min(SERVER_KILLS_A_RUN, server_kills - report.server_kills)):
            seen = len(live.rows)
            wait(live, lambda live, seen=seen: len(live.rows) > seen + 1)
            time.sleep(draw.uniform(0.0, 0.2))
            _kill_server(home)
            report.server_kills += 1
        seen = len(live.rows)
        wait(live, lambda live, seen=seen: len(live.rows) > seen + 1)
        live.process.send_signal(signal.SIGTERM)
        if live.ended() != 0:
            report.wrong.append(f"run {number} ended with {live.process.returncode}: {live.said}")
        number += 1
    last = Live(home, "--cycles", "3")
    if last.ended() != 0:
        report.wrong.append(f"the last run ended with {last.process.returncode}: {last.said}")
    check(home, report)
    return report


def wait(live: Live, until: Callable[[Live], bool]) -> None:
    """Wait for a sign of life. Kills the run and raises TimeoutError when it does not come."""
    deadline = time.monotonic() + PATIENCE
    while not until(live):
        if time.monotonic() > deadline or (live.process.poll() is not None and not until(live)):
            live.kill()
            raise TimeoutError(f"no sign of life: {live.said}")
        time.sleep(0.01)


def _options(home: Path, number: int) -> Sequence[str]:
    """Every other run has a script whose every line appends a word of its own to a file; the others think by reflex."""
    if number % 2:
        return ()
    script = home / f"script-{number}.txt"
    script.write_text("".join(f'TOOL: shell(command="echo {number}.{line} >> {LINES}")\n' for line in range(5000)))
    return ("--script", str(script))


def _kill_server(home: Path) -> None:
    pid = int((home / "bus" / "nats-server.pid").read_text())
    if str(home) in " ".join(psutil.Process(pid).cmdline()):
        os.kill(pid, signal.SIGKILL)


# -- what must hold ----------------------------------------------------------------------------------------------------


def rows_of(home: Path) -> list[dict]:
    """Every cycle, as `conch cycle list` has it."""
    return json.loads(_conch("cycle", "list", "--json", "--limit", "1000000", home=home))["cycles"]


def check(home: Path, report: Report, scorers: Collection[str] = ()) -> None:
    """Add what does not hold to the report. `scorers`: plug-ins, each with a score of its own for every act, whatever
    its status."""
    rows = rows_of(home)
    report.cycles = len(rows)
    report.unknown = sum(row["outcome"] == "unknown" for row in rows)
    _must(report, [row["cycle"] for row in rows] == list(range(len(rows))), "the cycles' numbers have a gap or repeat")
    _must(report, len({row["action_id"] for row in rows}) == len(rows), "an action id stands twice")
    for row in rows:
        _check_scores(report, row, scorers)
    _check_lines(report, home, rows)
    _check_tables(report, home, len(rows), len(scorers))
    asyncio.run(_check_stream(report, home))
    try:
        _conch("mark", "verify", home=home)
    except subprocess.CalledProcessError as error:
        report.wrong.append(f"mark verify ended with {error.returncode}: {error.stderr}")
    letters = json.loads(_conch("dlq", "list", "--json", home=home))
    _must(report, not next(value for value in letters.values() if isinstance(value, list)), f"dead letters: {letters}")
    left = [process.info for process in psutil.process_iter(["cmdline"]) if str(home) in str(process.info["cmdline"])]
    _must(report, not left, f"processes were left: {left}")


def _must(report: Report, holds: bool, sentence: str) -> None:
    if not holds:
        report.wrong.append(sentence)


def _check_scores(report: Report, row: dict, scorers: Collection[str]) -> None:
    states = {score["component"]: score["status"] for score in row["scores"]}
    expected = {"format", "execution", "needs", "goal", "exploration", *scorers}
    built_in = {status for component, status in states.items() if component not in scorers}
    _must(
        report,
        expected <= states.keys() and built_in <= {"scored", "not_applicable"} and row["complete"],
        f"cycle {row['cycle']} ({row['outcome']}) is not scored: {states}",
    )


def _check_lines(report: Report, home: Path, rows: Sequence[dict]) -> None:
    """A command was run once where its outcome is known, at most once where it is not."""
    file = home / "workspace" / LINES
    done = Counter(file.read_text().split() if file.exists() else ())  # a short run may end before the first
    asked = Counter()
    for row in rows:
        command = str(row["action"]["args"].get("command", ""))
        if row["action"]["tool"] == "shell" and command.endswith(f">> {LINES}"):
            word = command.split()[1]
            asked[word] += 1
            if row["outcome"] == "success":
                _must(report, done[word] == 1, f"cycle {row['cycle']} was done {done[word]} times: {word}")
    _must(report, max(asked.values(), default=0) <= 1, "a reply was decided on twice")
    _must(report, max(done.values(), default=0) <= 1, f"an act was done twice: {done.most_common(3)}")
    _must(report, done.keys() <= asked.keys(), f"acts were never said: {sorted(done.keys() - asked.keys())[:5]}")


def _check_tables(report: Report, home: Path, acts: int, more: int) -> None:
    """One score a component an act, one experience an act; every act has its mark. *progress* is scored in a task."""
    with sqlite3.connect(home / "store.db") as store:
        many = store.execute(
            "SELECT act, component, count(*) FROM scores GROUP BY act, component HAVING count(*) > 1"
        ).fetchall()
        stored = store.execute("SELECT count(*) FROM acts").fetchone()[0]
        scores = store.execute("SELECT count(*) FROM scores WHERE component != 'progress'").fetchone()[0]
    store.close()
    _must(report, not many, f"components scored more than once: {many[:5]}")
    parts = len(parts_of_act(weight_set((), RewardSettings()), task=False)) + more
    _must(report, (stored, scores) == (acts, parts * acts), f"{stored} acts and {scores} scores for {acts} experiences")


async def _check_stream(report: Report, home: Path) -> None:
    """No id stands for two contents."""
    from conch.cli.common import open_bus
    from conch.config import Settings
    from conch.home import Home

    contents: dict[str, bytes] = {}
    async with open_bus(Home(home), Settings()) as bus:
        async for delivery in bus.read(["conch.v1.>"]):
            report.events += 1
            first = contents.setdefault(json.loads(delivery.data)["id"], delivery.data)
            _must(report, _facts(first) == _facts(delivery.data), f"one id, two contents: {first!r} {delivery.data!r}")


def _facts(data: bytes) -> dict:
    """An event without its producer's time: a consumer that says it again after a crash says it later."""
    return {name: value for name, value in json.loads(data).items() if name != "time"}


def _conch(*arguments: str, home: Path) -> str:
    return subprocess.run(
        [str(CONCH), *arguments, "--home", str(home)], capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout


def main() -> None:
    """Print what was done and what does not hold; exit 1 when anything does not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="kill -9 of the whole process group")
    parser.add_argument("--server-kills", type=int, default=20, help="kill -9 of the nats-server alone")
    parser.add_argument("--seed", type=int, default=0)
    asked = options(parser, kills=1, server_kills=1)
    with fresh_home() as home:
        report = torture(Path(home), kills=asked.kills, server_kills=asked.server_kills, seed=asked.seed)
    print(
        f"{report.kills} kills of the group, {report.server_kills} of the nats-server: {report.cycles} cycles, "
        f"{report.unknown} outcomes unknown, {report.events} events"
    )
    for sentence in report.wrong:
        print(f"WRONG: {sentence}"[:2000])
    sys.exit(bool(report.wrong))


if __name__ == "__main__":
    main()
