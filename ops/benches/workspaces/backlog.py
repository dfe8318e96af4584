"""A small program that weighs parcels, with its backlog: five pieces of work a sprint."""

from __future__ import annotations

import random

from conch.workspace.kinds import FAULTS, CsvTable, to_add_up, to_commit, to_mend, to_quote, to_report
from conch.workspace.material import MaterialPiece
from conch_schemas import CommandCheck, FileCheck, Goal, TestsCheck
from workspaces import HeldOutWorkspace

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
    return to_commit(f"profile-{sprint}", f"timings/{sprint}-profile.csv", _timings(sprint, draw).text)


def _ticket(sprint: str, draw: random.Random) -> MaterialPiece:
    parts, wishes = draw.sample(_PARTS, 4), draw.sample(_WISHES, 4)
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


class Backlog:
    """The pieces of the backlog."""

    mark = ("README.md", "# Parcel")

    def piece(self, seed: int, number: int) -> MaterialPiece:
        """The piece of this number."""
        kinds = (_ticket, _defect, _profile, _regression, _measured)
        sprint, kind = divmod(number, len(kinds))
        return kinds[kind](f"sprint-{sprint + 1}", random.Random(f"{seed}/{number}"))


BACKLOG = HeldOutWorkspace(
    name="backlog",
    files={
        "README.md": "# Parcel\n\nWeighs parcels and says what they cost. `python3 -m unittest` runs the tests.\n",
        "parcel/__init__.py": '"""Weighs parcels."""\n',
        "parcel/price.py": (
            f'"""What a parcel costs."""\n\nZONES = {_ZONES!r}\n\n\ndef price(zone, kilos):\n'
            '    """Whole coins."""\n    return kilos * (2 + ZONES.index(zone))\n'
        ),
        "parcel/label.py": (
            '"""What is printed on it."""\n\n\ndef label(name, street, town):\n    """Three lines."""\n'
            '    return f"{name}\\n{town}\\n{street}"\n'
        ),
        "tests/__init__.py": "",
        "tests/test_parcel.py": (
            "import unittest\n\nfrom parcel.label import label\nfrom parcel.price import price\n\n\n"
            "class TestParcel(unittest.TestCase):\n    def test_the_price_rises_with_the_zone(self):\n"
            '        self.assertEqual(price("far", 3), 12)\n\n'
            "    def test_the_street_stands_above_the_town(self):\n"
            '        self.assertEqual(label("A", "B", "C"), "A\\nB\\nC")\n'
        ),
        "docs/words.md": (
            "# Words\n\n- **tare**: the weight of the box alone.\n- **manifest**: the list of what a van carries.\n"
            "- **consignment**: parcels that travel together.\n- **dead weight**: what is paid for empty space.\n"
        ),
        "docs/decisions.md": "# Decisions\n\n## Coins are whole\n\nNo fractions.\n\n## Zones are five\n\nAs posted.\n",
        "plans/ideas.md": "# Ideas\n\n- A scale that speaks.\n- Labels in two languages.\n- A list of prices.\n",
        "timings/start.csv": "run,part,milliseconds\nrun-1,scale,310\nrun-2,scale,295\nrun-1,label,120\n",
        "CHANGES.md": "# Changes\n\nNothing yet.\n",
    },
    uncommitted=("CHANGES.md",),
    goals=(
        Goal(
            id="changes",
            statement="CHANGES.md is committed.",
            check=CommandCheck(
                command="git ls-files --error-unmatch CHANGES.md && git diff --quiet HEAD -- CHANGES.md"
            ),
        ),
        Goal(
            id="words",
            statement="GLOSSARY.md has a line for each word that is set in bold in docs/words.md.",
            check=FileCheck(
                path="GLOSSARY.md", contains=("**tare**", "**manifest**", "**consignment**", "**dead weight**")
            ),
        ),
        Goal(id="tests", statement="All tests pass.", check=TestsCheck(), priority=0.7),
    ),
    script="workspaces.backlog:Backlog",
)
