"""`?range=`: the whole life, the last hour, the last N cycles, or the cycles from A to B. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

PARAMETER: Final = "range"
USUAL_LAST: Final = 400
"""The N of the button «Last N»; as many cycles as most charts draw."""
MOST_DIGITS: Final = 18
"""Digits of a cycle's number in an address."""
_LAST: Final = re.compile(rf"last-([0-9]{{1,{MOST_DIGITS}}})", re.ASCII)
_CYCLES: Final = re.compile(rf"([0-9]{{1,{MOST_DIGITS}}})-([0-9]{{1,{MOST_DIGITS}}})", re.ASCII)


class WantedRange(NamedTuple):
    """A range as an address names it."""

    kind: Literal["usual", "life", "hour", "last", "cycles"]
    """usual: none is named, each page has its own."""
    first: int = 0
    """Of `cycles`: the first cycle; of `last`: how many."""
    last: int = 0
    """Of `cycles`: the last cycle, shown as well."""

    @property
    def text(self) -> str:
        """As it stands in an address; empty: it does not."""
        if self.kind == "cycles":
            return f"{self.first}-{self.last}"
        if self.kind == "last":
            return f"last-{self.first}"
        return "" if self.kind == "usual" else self.kind

    @property
    def title(self) -> str:
        """In words, for a button."""
        return {
            "cycles": f"cycles {self.first:,} to {self.last:,}",
            "last": f"last {self.first:,}",
            "hour": "last hour",
        }.get(self.kind, "whole life")


USUAL: Final = WantedRange("usual")


def wanted_range(query: Mapping[str, str]) -> tuple[WantedRange, str]:
    """(the range that a query names, a sentence where it names none that there can be: then it is as if unnamed)."""
    text = query.get(PARAMETER, "").strip()
    if text in ("life", "hour"):
        return WantedRange("life" if text == "life" else "hour"), ""
    if (found := _LAST.fullmatch(text)) is not None and int(found[1]) > 0:
        return WantedRange("last", int(found[1])), ""
    if (found := _CYCLES.fullmatch(text)) is not None and int(found[1]) <= int(found[2]):
        return WantedRange("cycles", int(found[1]), int(found[2])), ""
    if not text:
        return USUAL, ""
    return USUAL, (
        f"The range “{text[:40]}” cannot be: it is life, hour, last-{USUAL_LAST} or two cycles such as 100-900, the "
        "smaller one first."
    )
