"""`ops/bench ui [pixel|load|pages]`."""

from __future__ import annotations

import asyncio
import sys

from ui import load, pages, pixel


def main() -> None:
    """All three, or the one that is named."""
    benches = {"pixel": pixel.main, "load": load.main, "pages": pages.main}
    names = sys.argv[1:] or list(benches)
    for name in names:
        if name not in benches:
            sys.exit(f"ops/bench ui {name}: there are {', '.join(benches)}")
        asyncio.run(benches[name]())


if __name__ == "__main__":
    main()
