"""What a long life of an agent costs, in parts.

    python -m life --part sdk
    python -m life --part month --cycles 260000

Each part is a module of this package with `measure(quick)`, which prints its rows.
"""

from __future__ import annotations

import argparse

from runs import options

from life import month, sdk

PARTS = ("sdk", "month")


def main() -> None:
    """Measure the parts that are named; all, where none is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="repeatable")
    parser.add_argument("--cycles", type=int, default=month.CYCLES, help="of the part month, for each of its settings")
    chosen = options(parser)
    parts = chosen.part or PARTS
    if "sdk" in parts:
        sdk.measure(chosen.quick)
    if "month" in parts:
        month.measure(chosen.quick, chosen.cycles)


main()
