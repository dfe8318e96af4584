"""The entry points of the installed packages."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, distributions, entry_points


@dataclass(frozen=True)
class BrokenPackage:
    """An installed package whose entry points cannot be read."""

    origin: str
    """`package NAME`."""
    why: str


def entry_points_of(groups: Sequence[str]) -> tuple[list[EntryPoint], list[BrokenPackage]]:
    """(what the installed packages declare in these groups, the packages of which that cannot be read). Nothing is
    imported."""
    with contextlib.suppress(Exception):  # the metadata of one package may be malformed
        every = entry_points()
        return [point for group in groups for point in every.select(group=group)], []
    found: dict[str, list[EntryPoint]] = {}
    broken = []
    for package in distributions():
        if (name := str(package.metadata["Name"])) in found:
            continue
        found[name] = []
        try:
            found[name] = list(package.entry_points)
        except Exception:
            why = "its entry_points.txt cannot be read: it needs lines of NAME = MODULE:FUNCTION; install it anew"
            broken.append(BrokenPackage(f"package {name}", why))
    points = [point for own in found.values() for point in own]
    return [point for group in groups for point in points if point.group == group], broken
