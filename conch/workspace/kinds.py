"""Kinds of material: each makes a piece whose goal fails at first, and that one to three acts reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from conch.workspace.material import AddedLine, MaterialPiece
from conch_schemas import CommandCheck, FileCheck, Goal, TestsCheck

PRIORITY = 0.5

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


class CalendarMonth(NamedTuple):
    """A month of a year."""

    year: int
    month: int

    @property
    def key(self) -> str:
        """As in a file's name: 2026-11."""
        return f"{self.year}-{self.month:02}"

    @property
    def title(self) -> str:
        """As in a sentence: November 2026."""
        return f"{_MONTHS[self.month - 1]} {self.year}"

    def after(self, months: int) -> CalendarMonth:
        """The month so many months later."""
        years, month = divmod(self.month - 1 + months, 12)
        return CalendarMonth(self.year + years, month + 1)


def committed(*paths: str) -> CommandCheck:
    """The check that these files are committed as they are."""
    named = " ".join(paths)
    return CommandCheck(command=f"git ls-files --error-unmatch {named} && git diff --quiet HEAD -- {named}")


def to_commit(id: str, *files: tuple[str, str]) -> MaterialPiece:
    """New files (path, text), one or two, that are to be committed."""
    paths = [path for path, _ in files]
    statement = f"{' and '.join(paths)} {'is' if len(paths) == 1 else 'are'} committed."
    return MaterialPiece("commit", _goal(id, statement, committed(*paths)), files)


@dataclass(frozen=True)
class CsvTable:
    """A table with a heading; `key` and `value` are names of columns, the key's column stands first."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    key: str
    value: str

    @property
    def text(self) -> str:
        """As CSV."""
        return "".join(f"{','.join(row)}\n" for row in (self.heading, *self.rows))

    @property
    def sums(self) -> tuple[str, ...]:
        """For each key, in order: the key, a comma, the sum of its values, which are whole numbers."""
        key, value = self.heading.index(self.key), self.heading.index(self.value)
        found: dict[str, int] = {}
        for row in self.rows:
            found[row[key]] = found.get(row[key], 0) + int(row[value])
        return tuple(f"{name},{total}" for name, total in sorted(found.items()))


def to_add_up(id: str, table_path: str, table: CsvTable, sums_path: str) -> MaterialPiece:
    """A new table whose sums are to be written to a file."""
    statement = (
        f"{sums_path} has a line for each {table.key} of {table_path}: its name, a comma, and the sum of its "
        f"{table.value}."
    )
    goal = _goal(id, statement, FileCheck(path=sums_path, contains=table.sums))
    return MaterialPiece("sums", goal, ((table_path, table.text),))


def to_quote(
    id: str, note: tuple[str, str], quoted: tuple[str, ...], statement: str, path: str, line: AddedLine | None = None
) -> MaterialPiece:
    """A new note (path, text) with lines that are to be copied to the file `path`."""
    return MaterialPiece("quote", _goal(id, statement, FileCheck(path=path, contains=quoted)), (note,), line)


def to_report(id: str, test: tuple[str, str], fails: str, says: str, path: str) -> MaterialPiece:
    """A new test (path, text) of which one method, `fails`, fails and `says` a line, to be kept in the file `path`."""
    statement = f"{path} has what python3 -m unittest {test[0]} says: which test fails, and how."
    goal = _goal(id, statement, FileCheck(path=path, contains=(f"FAIL: {fails}", says)))
    return MaterialPiece("report", goal, (test,))


class SmallFault(NamedTuple):
    """A fault of a small program: what stands there, what should."""

    function: str
    """Its name."""
    body: str
    """What it returns of `counts`, with the fault."""
    wrong: str
    right: str
    result: Callable[[Sequence[int]], float | list[int]]
    """What it should return."""


FAULTS = (
    SmallFault("heads", "sum(counts[1:])", "counts[1:]", "counts", sum),
    SmallFault("mean", "sum(counts) / len(counts + [0])", "counts + [0]", "counts", lambda c: sum(c) / len(c)),
    SmallFault("most", "sorted(counts)[0]", "[0]", "[-1]", max),
    SmallFault("spread", "max(counts) + min(counts)", ") + min", ") - min", lambda c: max(c) - min(c)),
    SmallFault("doubled", "[count * 3 for count in counts]", "* 3", "* 2", lambda c: [2 * count for count in c]),
    SmallFault("fewest", "min(counts) + 1", "min(counts) + 1", "min(counts)", min),
)


def to_mend(id: str, folder: str, name: str, fault: SmallFault, counts: Sequence[int]) -> MaterialPiece:
    """A new program with a fault, and a test of two methods that finds it."""
    program, test = f"{folder}/{name}.py", f"{folder}/check_{name}.py"
    source = (
        f'"""{fault.function} of some counts."""\n\n\n'
        f"def {fault.function}(counts):\n    return {fault.body}\n\n\n"
        "def number(counts):\n    return len(counts)\n"
    )
    checks = (
        f"import unittest\n\nfrom {folder}.{name} import {fault.function}, number\n\n"
        f"COUNTS = {list(counts)}\n\n\nclass Check(unittest.TestCase):\n"
        f"    def test_{fault.function}(self):\n"
        f"        self.assertEqual({fault.function}(COUNTS), {fault.result(counts)})\n\n"
        f"    def test_number(self):\n        self.assertEqual(number(COUNTS), {len(counts)})\n"
    )
    statement = f"The tests in {test} pass. In {program}, `{fault.wrong}` should read `{fault.right}`."
    goal = _goal(id, statement, TestsCheck(command=f"python3 -m unittest {test}"))
    corrected = source.replace(fault.wrong, fault.right)
    return MaterialPiece("correction", goal, ((program, source), (test, checks)), corrected=((program, corrected),))


def _goal(id: str, statement: str, check: CommandCheck | FileCheck | TestsCheck) -> Goal:
    return Goal(id=id, statement=statement, check=check, priority=PRIORITY)
