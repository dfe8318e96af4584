"""Prints the lines of requirements.lock that an install needs: python3 ops/requirements.py [EXTRA ...]

Each package of the lock names in a comment what needs it: `plain`, `build`, or an extra. The lines of the plain
install, of the build and of the extras named here go to stdout, for `pip install --require-hashes --no-deps -r`. Only
the standard library is needed: it runs before anything is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements.lock"
ALWAYS = ("plain", "build")
"""What each install needs: the project's dependencies, and what builds it."""
NEEDED_BY = "# for: "
"""Begins the comment above a package."""


def entries_of(lock: str) -> Iterator[tuple[frozenset[str], str]]:
    """(what needs it, its lines as pip reads them) of each package."""
    for block in lock.split(NEEDED_BY)[1:]:
        needed_by, _, lines = block.partition("\n")
        yield frozenset(needed_by.split()), lines


def requirements_of(lock: str, extras: Iterable[str]) -> str:
    """The lines of the packages that an install with these extras needs."""
    wanted = {*ALWAYS, *extras}
    return "".join(lines for needed_by, lines in entries_of(lock) if needed_by & wanted)


if __name__ == "__main__":
    sys.stdout.write(requirements_of(LOCK.read_text(), sys.argv[1:]))
