"""What training costs, and what decides on an adapter, in parts.

python -m train --part gate
python -m train --part smollm2 --home DIR    # of conch demo learn; without it one is run first
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from runs import options

from train import beside, gate, smollm2, swaps

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
    parser.add_argument("--home", type=Path, help="of conch demo learn, for smollm2")
    parser.add_argument("--states", type=int, default=300, help="held-out states at most, for smollm2")
    chosen = options(parser)
    for part in chosen.part or PARTS:
        PARTS[part](chosen)


main()
