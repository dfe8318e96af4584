"""A small program that weighs parcels, with its backlog: five pieces of work a sprint."""

from __future__ import annotations

import random

from conch.workspace.kinds import FAULTS, CsvTable, committed, to_add_up, to_commit, to_mend, to_quote, to_report
from conch.workspace.material import MaterialPiece
from conch_schemas import FileCheck, Goal, TestsCheck

CHANGES = "CHANGES.md"
"""Left out of the repository: committing it is one of the goals."""

_ZONES = ("home", "near", "far", "island", "overseas")
_PARTS = ("scale", "label", "route", "invoice", "depot", "courier", "pallet", "barcode")
_WISHES = (
    "refuses a weight below zero", "prints the sender below the recipient", "rounds half a gram up",
    "keeps the last hundred entries", "says which field is missing", "accepts a comma for a point",
    "sorts by zone and then by weight", "leaves out what was cancelled",
)  # fmt: skip


def _timings(sprint: str, draw: random.Random) -> CsvTable:
    rows = tuple(
        (f"run-{number}", part, str(draw.randint(100, 900)))
        for part in draw.sample(_PARTS, 3)
        for number in draw.sample(range(1, 9), 2)
    )
    return CsvTable(("run", "part", "milliseconds"), rows, key="part", value="milliseconds")


def _measured(sprint: str, draw: random.Random) -> MaterialPiece:
    return to_add_up(f"time-{sprint}", f"timings/{sprint}.csv", _timings(sprint, draw), f"timings/{sprint}-sums.csv")


def _profile(sprint: str, draw: random.Random) -> MaterialPiece:
    files = [(f"timings/{sprint}-profile.csv", _timings(sprint, draw).text)]
    if int(sprint.rpartition("-")[2]) % 2 == 0:
        files.append((f"timings/{sprint}-before.csv", _timings(sprint, draw).text))
    return to_commit(f"profile-{sprint}", *files)


def _ticket(sprint: str, draw: random.Random) -> MaterialPiece:
    many = draw.choice((4, 4, 8))
    parts, wishes = draw.sample(_PARTS, many), draw.sample(_WISHES, many)
    lines = tuple(
        f"The {part} {wish} ({sprint}-{draw.randint(10, 99)})." for part, wish in zip(parts, wishes, strict=True)
    )
    text = f"# Tickets of {sprint}\n\nAgreed with the depot:\n\n" + "".join(f"- {line}\n" for line in lines)
    path = f"plans/{sprint}-accepted.md"
    statement = f"{path} has each accepted line of plans/{sprint}.md, word for word."
    return to_quote(f"ticket-{sprint}", (f"plans/{sprint}.md", text), lines, statement, path)


def _defect(sprint: str, draw: random.Random) -> MaterialPiece:
    return to_mend(
        f"defect-{sprint}", "fixes", sprint.replace("-", "_"), draw.choice(FAULTS), draw.sample(range(90), 5)
    )


def _regression(sprint: str, draw: random.Random) -> MaterialPiece:
    zone, weight = draw.choice(_ZONES), draw.randint(1, 40)
    price, fails = weight * (2 + _ZONES.index(zone)), f"test_{zone}_is_priced"
    text = (
        "import unittest\n\nfrom parcel.price import price\n\n\nclass Check(unittest.TestCase):\n"
        f"    def {fails}(self):\n        self.assertEqual(price({zone!r}, {weight}), {price + draw.randint(1, 5)})\n"
    )
    says, path = f"AssertionError: {price} != ", f"plans/{sprint}-report.md"
    return to_report(f"report-{sprint}", (f"fixes/check_{sprint.replace('-', '_')}_price.py", text), fails, says, path)


class BacklogScript:
    """The pieces of the backlog."""

    mark = ("README.md", "# Parcel")

    def piece(self, seed: int, number: int) -> MaterialPiece:
        """The piece of this number."""
        kinds = (_ticket, _defect, _profile, _regression, _measured)
        sprint, kind = divmod(number, len(kinds))
        return kinds[kind](f"sprint-{sprint + 1}", random.Random(f"{seed}/{number}"))  # noqa: S311 - no secret


def backlog_goals() -> tuple[Goal, ...]:
    """The goals of a new workspace."""
    return (
        Goal(
            id="changes",
            statement=f"{CHANGES} is committed.",
            check=committed(CHANGES),
        ),
        Goal(
            id="words",
            statement="GLOSSARY.md has a line for each word that is set in bold in docs/words.md.",
            check=FileCheck(
                path="GLOSSARY.md", contains=("**tare**", "**manifest**", "**consignment**", "**dead weight**")
            ),
        ),
        Goal(
            id="tests",
            statement="All tests pass. In parcel/label.py, `{town}\\n{street}` should read `{street}\\n{town}`.",
            check=TestsCheck(),
            priority=0.7,
        ),
    )
