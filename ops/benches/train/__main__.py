"""What training costs, and what decides on an adapter, in parts; or the whole loop on a tiny model.

python -m train --part gate
python -m train --tiny --seeds 5 --json tiny.json
python -m train --part smollm2 --home DIR    # of conch demo learn; without it one is run first
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from runs import options

from train import beside, gate, planted, smollm2, swaps, tiny

PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "beside": lambda chosen: beside.measure(chosen.quick),
    "gate": lambda chosen: gate.measure(chosen.quick),
    "smollm2": lambda chosen: smollm2.measure(chosen.quick, chosen.home, chosen.states),
    "swaps": lambda chosen: swaps.measure(chosen.quick),
}


def main() -> None:
    """Measure the parts that are named; all, where none is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="repeatable")
    parser.add_argument("--tiny", action="store_true", help="the whole loop on a tiny model, and planted adapters")
    parser.add_argument("--seeds", type=int, default=5, help="lives of --tiny")
    parser.add_argument("--json", type=Path, help="file for the figures of --tiny")
    parser.add_argument("--home", type=Path, help="of conch demo learn, for smollm2")
    parser.add_argument("--states", type=int, default=300, help="held-out states at most, for smollm2")
    chosen = options(parser, seeds=2)
    if chosen.tiny:
        tiny.measure(chosen.seeds, chosen.json, planted.QUICK if chosen.quick else planted.KINDS)
        return
    for part in chosen.part or PARTS:
        PARTS[part](chosen)


main()
