"""What training costs, and what decides on an adapter, in parts.

python -m train --part gate
"""

from __future__ import annotations

import argparse

from runs import options

from train import beside, gate, swaps

PARTS = {"beside": beside.measure, "gate": gate.measure, "swaps": swaps.measure}


def main() -> None:
    """Measure the parts that are named; all, where none is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="repeatable")
    chosen = options(parser)
    for part in chosen.part or PARTS:
        PARTS[part](chosen.quick)


main()
