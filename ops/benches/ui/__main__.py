"""`ops/bench ui [pixel|load|pages|traffic|many] [--quick]`."""

from __future__ import annotations

import argparse
import asyncio

from runs import options

from ui import load, many, pages, pixel, traffic


def main() -> None:
    """All of them, or the one that is named."""
    benches = {"pixel": pixel.main, "load": load.main, "pages": pages.main, "traffic": traffic.main, "many": many.main}
    parser = argparse.ArgumentParser(prog="ops/bench ui", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"{', '.join(benches)}; all by default")
    chosen = options(parser)
    for name in set(chosen.name) - set(benches):
        parser.error(f"there is no measurement {name}: choose among {', '.join(benches)}")
    for name in chosen.name or benches:
        asyncio.run(benches[name](quick=chosen.quick))


if __name__ == "__main__":
    main()
