"""What goes on at Conch Point: seven pieces of material a month, without an end."""

from __future__ import annotations

import random
from typing import Final

from conch.workspace.kinds import (
    FAULTS,
    CalendarMonth,
    CsvTable,
    to_add_up,
    to_commit,
    to_mend,
    to_quote,
    to_report,
)
from conch.workspace.material import AddedLine, MaterialPiece

FIRST: Final = CalendarMonth(2026, 11)
"""The month after the last count that the notebook starts with."""
QUESTIONS: Final = "notes/questions.md"

_SPECIES = (
    "limpet", "hermit crab", "beadlet anemone", "prawn", "shanny", "starfish", "urchin", "goby", "pipefish", "whelk",
)  # fmt: skip
_COUNT = ("date", "pool", "species", "count", "water_celsius")
_TERMS = {
    "strandline": "the row of weed and wood that the last high water left",
    "splash zone": "rock that only spray reaches",
    "byssus": "the threads by which a mussel holds on",
    "gape": "the gap between the shells of a mussel under water",
    "scour": "bare rock where sand is driven over it",
    "operculum": "the lid with which a winkle shuts its shell",
    "spat": "oysters too small to count",
    "moult": "the empty armour of a crab that has grown",
    "egg collar": "the ring of sand that a moon snail lays its eggs in",
    "sea lettuce": "a green sheet, two cells thick",
    "siphon": "the tube through which a clam breathes",
    "swash": "the water that runs up the beach after a wave",
    "groyne": "a wall of wood against the drift of sand",
    "tombolo": "a bar of sand that joins an island to the shore",
    "wrack": "brown weed with bladders, in bands down the shore",
    "biofilm": "the slime that limpets live on",
}
_PEOPLE = ("Ada", "Birk", "Clio", "Doran", "Elis", "Freya", "Goran", "Hanne", "Iver", "Juna")
_THINGS = (
    "a blue-rayed limpet", "two sea slaters", "a lost dog whelk", "the egg case of a dogfish", "a by-the-wind sailor",
    "three brittle stars", "a crab without claws", "a bottle with Dutch sand", "a green urchin", "an old brass float",
)  # fmt: skip
_PLACES = (
    "under the third stone", "behind the groyne", "in the crack above pool two", "at the foot of the steps",
    "below the kelp line", "between pools four and five", "on the flat rock", "in the wreck's ribs",
)  # fmt: skip


class TidepoolScript:
    """The pieces of the notebook about rock pools. A month has one of each kind, in the order of `_KINDS`."""

    mark = ("README.md", "# The pools at Conch Point")

    def piece(self, seed: int, number: int) -> MaterialPiece:
        """The piece of this number: a pure function of both."""
        months, kind = divmod(number, len(_KINDS))
        return _KINDS[kind](FIRST.after(months), random.Random(f"{seed}/{number}"))  # noqa: S311 - no secret


def _count(month: CalendarMonth, draw: random.Random) -> MaterialPiece:
    count, water = f"data/{month.key}.csv", f"data/{month.key}-water.csv"
    files = [(count, _table(month, draw).text)]
    if month.month % 2 == 0:
        days = sorted(draw.sample(range(1, 29), 6))
        lines = "".join(f"{month.key}-{day:02},{draw.uniform(7, 17):.1f}\n" for day in days)
        files.append((water, f"date,water_celsius\n{lines}"))
    return to_commit(f"count-{month.key}", *files)


def _night(month: CalendarMonth, draw: random.Random) -> MaterialPiece:
    night, sums = f"data/{month.key}-night.csv", f"data/{month.key}-night-sums.csv"
    return to_add_up(f"sums-{month.key}", night, _table(month, draw), sums)


def _table(month: CalendarMonth, draw: random.Random) -> CsvTable:
    """Four species, two rows each: no sum stands in a row."""
    species, day, water = draw.sample(_SPECIES, 4), draw.randint(1, 28), draw.uniform(7, 17)
    rows = tuple(
        (f"{month.key}-{day:02}", str(pool), name, str(draw.randint(20, 60)), f"{water + draw.random():.1f}")
        for name in species
        for pool in draw.sample(range(1, 7), 2)
    )
    return CsvTable(_COUNT, rows, key="species", value="count")


def _words(month: CalendarMonth, draw: random.Random) -> MaterialPiece:
    lines = tuple(
        f"**{term}**: {_TERMS[term]}; met in {month.title} at pool {draw.randint(1, 6)}."
        for term in draw.sample(sorted(_TERMS), draw.choice((3, 3, 8)))
    )
    note, path = f"notes/{month.key}-words.md", f"notes/{month.key}-glossary.md"
    text = f"# Words of {month.title}\n\n" + "".join(f"- {line}\n" for line in lines)
    statement = f"{path} has a line for each word that is set in bold in {note}, as it stands there."
    return to_quote(f"glossary-{month.key}", (note, text), lines, statement, path)


def _letter(month: CalendarMonth, draw: random.Random) -> MaterialPiece:
    finds = [
        (person, place, f"{person} found {thing} {place} on {draw.randint(1, 28)} {month.title}.")
        for person, thing, place in zip(
            draw.sample(_PEOPLE, 5), draw.sample(_THINGS, 5), draw.sample(_PLACES, 5), strict=True
        )
    ]
    person, place, answer = draw.choice(finds)
    question = f"What did {person} find {place} in {month.title}?"
    note, path = f"notes/{month.key}-letter.md", f"notes/{month.key}-answer.md"
    text = f"# A letter, {month.title}\n\n" + "".join(f"{sentence}\n" for _, _, sentence in finds)
    statement = f"{path} answers the question “{question}” with the sentence of {note} that does."
    return to_quote(
        f"answer-{month.key}", (note, text), (answer,), statement, path, AddedLine(QUESTIONS, f"- {question}")
    )


def _survey(month: CalendarMonth, draw: random.Random) -> MaterialPiece:
    module, rows = f"check_{month.key.replace('-', '_')}", _table(month, draw).rows
    first, second = sorted({row[2] for row in rows})[:2]
    total = sum(int(row[3]) for row in rows if row[2] == first)
    other = sum(int(row[3]) for row in rows if row[2] == second)
    claimed = total + draw.randint(1, 9)
    fails = f"test_each_{first.replace(' ', '_')}_is_counted"
    sightings = "".join(f'    Sighting("{row[0]}", {row[1]}, "{row[2]}", {row[3]}, {row[4]}),\n' for row in rows)
    text = (
        f'"""The survey of {month.title}, added up by tidepool."""\n\nimport unittest\n\n'
        f"from tidepool.sightings import Sighting, total\n\nSIGHTINGS = [\n{sightings}]\n\n\n"
        "class Check(unittest.TestCase):\n"
        f"    def {fails}(self):\n"
        f'        self.assertEqual(total(SIGHTINGS, "{first}"), {claimed})\n\n'
        "    def test_the_others_are_counted(self):\n"
        f'        self.assertEqual(total(SIGHTINGS, "{second}"), {other})\n'
    )
    says = f"AssertionError: {total} != {claimed}"
    return to_report(f"report-{month.key}", (f"surveys/{module}.py", text), fails, says, f"notes/{month.key}-report.md")


def _tally(month: CalendarMonth, draw: random.Random) -> MaterialPiece:
    counts = draw.sample(range(2, 60), 6)
    return to_mend(f"mend-{month.key}", "surveys", f"tally_{month.key.replace('-', '_')}", draw.choice(FAULTS), counts)


def _walk(month: CalendarMonth, draw: random.Random) -> MaterialPiece:
    places = draw.sample(_PLACES, draw.choice((4, 4, 8)))
    headings = tuple(f"{draw.choice(_PEOPLE)} {place}, {month.title}" for place in places)
    note, path = f"notes/{month.key}-walk.md", f"notes/{month.key}-summary.md"
    text = f"# A walk in {month.title}\n" + "".join(
        f"\n## {heading}\n\nThere lay {draw.choice(_THINGS)}, and {draw.randint(2, 40)} limpets sat beside it.\n"
        for heading in headings
    )
    statement = f"{path} has every heading of {note}."
    return to_quote(f"summary-{month.key}", (note, text), headings, statement, path)


_KINDS: Final = (_count, _night, _words, _letter, _survey, _tally, _walk)
