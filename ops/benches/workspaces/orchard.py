"""An orchard and what it bears: five pieces of work a season. Nothing of the embedded mind was ever tuned in it."""

from __future__ import annotations

import random

from conch.workspace.kinds import FAULTS, CsvTable, committed, to_add_up, to_commit, to_mend, to_quote
from conch.workspace.material import MaterialPiece
from conch_schemas import FileCheck, Goal
from workspaces import HeldOutWorkspace

_KINDS = ("Boskoop", "Conference", "Reine Claude", "Gravenstein", "Williams", "Mirabelle", "Holstein", "Zwetschge")
_ROWS = ("north", "brook", "wall", "lane", "hill")
_SIGHTS = (
    "canker on the third branch", "a nest of tits", "bark gnawed by hares", "the graft has taken",
    "lice below the buds", "a broken stake", "moss up to the fork", "the first blossom",
)  # fmt: skip


def _picked(season: str, draw: random.Random) -> CsvTable:
    rows = tuple(
        (kind, row, str(draw.randint(15, 240))) for kind in draw.sample(_KINDS, 4) for row in draw.sample(_ROWS, 2)
    )
    return CsvTable(("kind", "row", "kilos"), rows, key="kind", value="kilos")


def _harvest(season: str, draw: random.Random) -> MaterialPiece:
    return to_add_up(f"harvest-{season}", f"harvest/{season}.csv", _picked(season, draw), f"harvest/{season}-sums.csv")


def _ledger(season: str, draw: random.Random) -> MaterialPiece:
    files = [(f"ledger/{season}-sold.csv", _picked(season, draw).text)]
    if int(season.rpartition("-")[2]) % 2 == 0:
        files.append((f"ledger/{season}-pressed.csv", _picked(season, draw).text))
    return to_commit(f"ledger-{season}", *files)


def _round(season: str, draw: random.Random) -> MaterialPiece:
    many = draw.choice((4, 4, 8))
    lines = tuple(
        f"{kind} in the {draw.choice(_ROWS)} row, {season}: {sight}."
        for kind, sight in zip(draw.sample(_KINDS, many), draw.sample(_SIGHTS, many), strict=True)
    )
    text = f"# The round of {season}\n\nSeen on the way:\n\n" + "".join(f"- {line}\n" for line in lines)
    note, path = f"rounds/{season}.md", f"rounds/{season}-todo.md"
    return to_quote(f"round-{season}", (note, text), lines, f"{path} has each line of {note} that names a tree.", path)


def _label(season: str, draw: random.Random) -> MaterialPiece:
    names = tuple(f"{kind}, grafted in {season}" for kind in draw.sample(_KINDS, 3))
    text = f"# Grafts of {season}\n" + "".join(f"\n## {name}\n\nOn quince, with raffia.\n" for name in names)
    note, path = f"grafts/{season}.md", f"grafts/{season}-labels.md"
    return to_quote(f"labels-{season}", (note, text), names, f"{path} has a label for every heading of {note}.", path)


def _scale(season: str, draw: random.Random) -> MaterialPiece:
    name = f"scale_{season.replace('-', '_')}"
    return to_mend(f"scale-{season}", "press", name, draw.choice(FAULTS), draw.sample(range(90), 5))


class Orchard:
    """The pieces of the orchard."""

    mark = ("README.md", "# The orchard")

    def piece(self, seed: int, number: int) -> MaterialPiece:
        """The piece of this number."""
        kinds = (_round, _harvest, _scale, _ledger, _label)
        season, kind = divmod(number, len(kinds))
        return kinds[kind](f"season-{season + 1}", random.Random(f"{seed}/{number}"))


ORCHARD = HeldOutWorkspace(
    name="orchard",
    files={
        "README.md": "# The orchard\n\nSixty trees in five rows: what they bear, and what is done to them.\n",
        "trees/apples.md": "# Apples\n\n**Boskoop** keeps until March. **Gravenstein** does not keep.\n",
        "trees/pears.md": "# Pears\n\n**Williams** ripens off the tree, **Conference** sets fruit alone.\n",
        "trees/plums.md": "# Plums\n\n**Mirabelle** for the press, **Zwetschge** for the cake.\n",
        "harvest/first.csv": "kind,row,kilos\nBoskoop,north,120\nWilliams,wall,80\n",
        "ledger/frost.csv": "night,row,celsius\n1,brook,-3\n2,hill,-1\n",
        "press/__init__.py": "",
    },
    uncommitted=("ledger/frost.csv",),
    goals=(
        Goal(id="frost", statement="ledger/frost.csv is committed.", check=committed("ledger/frost.csv")),
        Goal(
            id="register",
            statement="trees/register.md has every kind that is set in bold in the notes on trees.",
            check=FileCheck(
                path="trees/register.md",
                contains=tuple(
                    f"**{kind}**"
                    for kind in ("Boskoop", "Gravenstein", "Williams", "Conference", "Mirabelle", "Zwetschge")
                ),
            ),
        ),
    ),
    script="workspaces.orchard:Orchard",
)
