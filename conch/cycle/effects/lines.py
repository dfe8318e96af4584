"""Lines of text as the agent compares them, and how two states of the workspace differ in them. Pure."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

_PLACE = re.compile(r"[^\s:]+:\d+:")
"""Where a search puts a line: path and number before it."""
_HIT = re.compile(r"(.+?):(\d+):(.*)")
_MARK = re.compile(
    r"\[(?:… \d+ (?:characters|bytes) left out …|at most \d+ are shown"
    r"|\d+ bytes in all are in @output/\d+\.txt: read it with offset and lines, or grep it)\]"
)
"""A tool's own line in an output that it shortened."""

FileLines = array
"""Digests of a file's lines, in order, each as often as the line occurs: 8 bytes a line."""


def lines_of(text: str) -> list[str]:
    """The lines of `text` that count: trimmed, without a leading `path:number:`, none that is empty."""
    found = []
    for line in text.splitlines():
        bare = _PLACE.sub("", line.strip(), count=1).strip() if ":" in line else line.strip()
        if bare and not (bare[0] == "[" and _MARK.fullmatch(bare)):
            found.append(bare)
    return found


def hits_of(text: str) -> dict[str, list[str]]:
    """The lines of a search's output by the path that they were found in: `path:number:line`."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if (hit := _HIT.fullmatch(line)) is not None and (bare := hit[3].strip()):
            found.setdefault(hit[1], []).append(bare)
    return found


def digest_of(line: str) -> int:
    """64 bits that stand for a line: two of 100,000 lines share them with a probability below 1 in a billion."""
    found = blake2b(line.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(found, "little", signed=True)


def digests_of(lines: Iterable[str]) -> dict[int, str]:
    """Each line once, by its digest."""
    return {digest_of(line): line for line in lines}


def file_lines(text: str) -> FileLines[int]:
    """The lines of a file's text, as digests."""
    return array("q", map(digest_of, lines_of(text)))


@dataclass(frozen=True)
class LineDifference:
    """Lines that files gained and lost, each as often as it did."""

    added: Counter[int] = field(default_factory=Counter)
    removed: Counter[int] = field(default_factory=Counter)

    @property
    def moved(self) -> int:
        """Added lines that were removed elsewhere."""
        return (self.added & self.removed).total()


def difference(files: Iterable[tuple[Iterable[int], Iterable[int]]]) -> LineDifference:
    """The difference over files, each given as (lines before, lines after); a line that changes place in its file is
    neither added nor removed."""
    added: Counter[int] = Counter()
    removed: Counter[int] = Counter()
    for before, after in files:
        old, new = Counter(before), Counter(after)
        added += new - old
        removed += old - new
    return LineDifference(added, removed)


def in_files(wanted: set[int], files: Mapping[str, FileLines[int]]) -> set[int]:
    """Those of `wanted` that stand in one of the files."""
    found: set[int] = set()
    for lines in files.values() if wanted else ():
        found |= wanted.intersection(lines)
        if len(found) == len(wanted):
            break
    return found
