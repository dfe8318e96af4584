"""What a long life of an agent costs, in parts.

    python -m life --part sdk --part injection

Each part is a module of this package with `measure(quick)`, which prints its rows.
"""

from __future__ import annotations

import argparse

from runs import options

from life import injection, sdk

PARTS = {"sdk": sdk.measure, "injection": injection.measure}


def main() -> None:
    """Measure the parts that are named; all, where none is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="repeatable")
    chosen = options(parser)
    for name in chosen.part or PARTS:
        PARTS[name](chosen.quick)


main()
