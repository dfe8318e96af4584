"""Secrets that are left in texts, and ordinary lines that are taken for secrets: ops/bench redaction [--quick].

Prints a table. Planted: secrets of 60 kinds, each in 11 places of what an agent reads and writes, and of the further
forms of tests/secrets/forms.py; their values are of generators that know nothing of the detector. Ten kinds were drawn
by lot before the first rule was written, and not looked at while the rules were made. Alarms: in Python's library, the
packages beside Conch, its own sources and its documentation. Ends with 1 where a secret is left.
"""

from __future__ import annotations

import argparse
import html
import random
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from runs import options

from conch.secrets import hide_secrets, secret_spans

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the kinds are those of tests/secrets

from tests.secrets.forms import FORMS  # noqa: E402
from tests.secrets.planted import HELD_OUT, KINDS, PLACES, Planted, formed, leaks, planted  # noqa: E402


def main() -> None:
    """Print the table; end with 1 where a secret is left."""
    parser = argparse.ArgumentParser(prog="ops/bench redaction", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="secrets of each kind in each place")
    parser.add_argument("--files", type=int, default=10_000, help="most files of each body of ordinary lines")
    chosen = options(parser, times=1, files=20)
    print("| what | texts or lines | left or alarms |\n|---|---:|---:|")
    left = 0
    for title, kinds in (("50 kinds", frozenset(KINDS) - HELD_OUT), ("10 kinds that were held out", HELD_OUT)):
        made = list(_placed(kinds, chosen.times))
        left += (missed := _left(made))
        print(f"| {title}, in {len(PLACES)} places | {len(made):,} | {missed:,} |")
    more = [formed(form, random.Random(f"{form}/{at}")) for form in FORMS for at in range(chosen.times)]
    left += (missed := _left(more))
    print(f"| {len(FORMS)} further forms | {len(more):,} | {missed:,} |")
    for title, files in _ordinary().items():
        print(_alarms(title, sorted(files)[: chosen.files]), flush=True)
    sys.exit(left > 0)


def _placed(kinds: frozenset[str], times: int) -> Iterator[Planted]:
    for place in PLACES.values():
        for _, plant in planted(kinds, times, seed=20):
            yield plant._replace(text=place(plant.text))


def _left(made: Iterable[Planted]) -> int:
    hidden = ((plant.secret, hide_secrets(plant.text)) for plant in made)
    return sum(leaks(secret, text) or leaks(secret, html.unescape(text)) for secret, text in hidden)


def _ordinary() -> dict[str, Iterable[Path]]:
    paths = sysconfig.get_paths()
    return {
        "Python's library": Path(paths["stdlib"]).glob("*.py"),
        "packages beside Conch": Path(paths["purelib"]).glob("*/*.py"),
        "Conch's sources": (ROOT / "conch").rglob("*.py"),
        "the documentation": (ROOT / "docs").rglob("*.md"),
    }


def _alarms(title: str, files: list[Path]) -> str:
    texts = [file.read_text(errors="replace") for file in files]
    began = time.process_time()
    alarms = sum(len(secret_spans(text)) for text in texts)
    seconds, lines = time.process_time() - began, sum(text.count("\n") for text in texts)
    size = max(1, sum(map(len, texts)))
    return f"| {title}, {seconds / size * 1e9:.0f} ns a character | {lines:,} | {alarms} |"


if __name__ == "__main__":
    main()
