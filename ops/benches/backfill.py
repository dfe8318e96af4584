"""How fast recorded history is scored anew: by one rule process, by two, and by a plain loop in the same run.

A store of made-up cycles; `conch reward backfill` over all of it, under strict durability, once for each number of
processes, as a version of its own. Scored: from the first act read until the stream has acknowledged the last score.
Joined: until store and witness have taken all of them in. The plain loop decodes the same acts and calls the same
function, and publishes nothing: what no way of doing it can beat in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from history import fill_store
from runs import CONCH, fresh_home, fsync_ms, options

from conch.consumer.plugins.discover import load_one
from conch.experience import ScoredSince, SqliteReader
from conch.home import Home
from conch.rules import DeclaredRule
from conch_schemas import ActionTaken, decode, wire_form

RULE = '''
from conch import rule

@rule()
def brevity(action):
    """1 for an empty reply, 0 for one of a thousand characters."""
    return max(0.0, 1.0 - len(action.raw) / 1000)
'''


def plain_loop(home: Path, rules: Path) -> float:
    """Acts a second."""
    spec = load_one(str(rules), "brevity")
    assert isinstance(spec, DeclaredRule)
    with SqliteReader(home / "store.db") as store:
        wanted = store.backfill.unscored("echo", "brevity", "plain", ScoredSince())
        lines = [wire_form(row.act) for page in store.backfill.past(wanted, 1000) for row in page]
    start = time.perf_counter()
    for line in lines:
        act = decode(line)
        assert isinstance(act, ActionTaken)
        spec.function(act)
    return len(lines) / (time.perf_counter() - start)


def backfilled(home: Path, rules: Path, processes: int) -> tuple[float, float]:
    """(acts scored a second, scores joined a second)."""
    options = ["--rules", str(rules), "--version", f"of-{processes}", "--processes", str(processes)]
    start = time.perf_counter()
    ran = subprocess.run(
        [str(CONCH), "reward", "backfill", "brevity", *options, "--json", "--home", str(home)],
        check=True,
        stdout=subprocess.PIPE,
    )
    whole, told = time.perf_counter() - start, json.loads(ran.stdout)
    assert (told["left"], told["joined"]) == (0, True), told
    return told["per_second"], told["published"] / (whole - told["seconds"])


def main() -> None:
    """Print acts a second of each way, and each as a share of the plain loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--acts", type=int, default=100_000)
    chosen = options(parser, acts=300)
    with fresh_home() as directory:
        rules, home = Path(directory) / "rules.py", Home(Path(directory) / "home")
        rules.write_text(RULE)
        home.make()
        fill_store(home.path, chosen.acts)
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        print(f"{chosen.acts:,} acts, {os.cpu_count()} processors, load {load}, one fsync {fsync_ms(directory):.3f} ms")
        plain = plain_loop(home.path, rules)
        print(f"  plain loop, nothing published: {plain:,.0f} acts/s")
        for processes in (1, 2):
            scored, joined = backfilled(home.path, rules, processes)
            words = f"scored and acknowledged {scored:,.0f} acts/s ({scored / plain:.2f} of the loop)"
            print(f"  {processes} process{'es' if processes > 1 else ''}: {words}, joined and marked {joined:,.0f}/s")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
