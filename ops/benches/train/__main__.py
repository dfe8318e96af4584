"""What training costs, and what decides on an adapter, in parts; or the whole loop on a tiny model.

python -m train --part gate
python -m train --tiny --seeds 5 --json tiny.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from runs import options

from train import beside, gate, swaps, tiny

PARTS = {"beside": beside.measure, "gate": gate.measure, "swaps": swaps.measure}


def main() -> None:
    """Measure the parts that are named; all, where none is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="repeatable")
    parser.add_argument("--tiny", action="store_true", help="the whole loop on a tiny model")
    parser.add_argument("--seeds", type=int, default=5, help="lives of --tiny")
    parser.add_argument("--json", type=Path, help="file for the figures of --tiny")
    chosen = options(parser, seeds=2)
    if chosen.tiny:
        tiny.measure(chosen.seeds, chosen.json)
        return
    for part in chosen.part or PARTS:
        PARTS[part](chosen.quick)


main()
