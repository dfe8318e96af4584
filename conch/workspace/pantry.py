"""Recipes and what is left in the pantry: five pieces of work a week, and no program."""

from __future__ import annotations

import random

from conch.workspace.kinds import CsvTable, committed, to_add_up, to_commit, to_quote
from conch.workspace.material import AddedLine, MaterialPiece
from conch_schemas import FileCheck, Goal

CELLAR = "stock/cellar.csv"
"""Left out of the repository: committing it is one of the goals."""

_FOODS = ("rye flour", "lentils", "oats", "butter", "honey", "barley", "split peas", "walnuts", "salt", "raisins")
_DISHES = ("Barley soup", "Nut bread", "Pea mash", "Honey cake", "Oat porridge", "Lentil stew", "Raisin buns")
_GUESTS = ("Mika", "Noor", "Olav", "Petra", "Quinn", "Rosa", "Sten")
_WAYS = ("with too much salt", "burnt at the edges", "without any honey", "as the best of the year", "still warm")


def _used(week: str, draw: random.Random) -> CsvTable:
    rows = tuple(
        (f"{week}-{day}", food, str(draw.randint(50, 400)))
        for food in draw.sample(_FOODS, 4)
        for day in draw.sample(("mon", "tue", "wed", "thu", "fri"), 2)
    )
    return CsvTable(("day", "food", "grams"), rows, key="food", value="grams")


def _usage(week: str, draw: random.Random) -> MaterialPiece:
    return to_add_up(f"usage-{week}", f"stock/{week}-used.csv", _used(week, draw), f"stock/{week}-sums.csv")


def _delivery(week: str, draw: random.Random) -> MaterialPiece:
    files = [(f"stock/{week}.csv", _used(week, draw).text)]
    if int(week.rpartition("-")[2]) % 2 == 0:
        files.append((f"stock/{week}-market.csv", _used(week, draw).text))
    return to_commit(f"delivery-{week}", *files)


def _recipe(week: str, draw: random.Random) -> MaterialPiece:
    dish = draw.choice(_DISHES)
    foods = draw.sample(_FOODS, draw.choice((4, 4, 8)))
    lines = tuple(f"{draw.randint(50, 900)} grams of {food} for {dish} ({week})" for food in foods)
    text = f"# {dish}, {week}\n\n" + "".join(f"* {line}\n" for line in lines) + "\nKnead, wait an hour, bake.\n"
    note, path = f"recipes/{week}.md", f"stock/{week}-shopping.md"
    statement = f"{path} has each ingredient of {note}, as it stands there."
    return to_quote(f"shopping-{week}", (note, text), lines, statement, path)


def _menu(week: str, draw: random.Random) -> MaterialPiece:
    dishes = tuple(f"{dish} in {week}" for dish in draw.sample(_DISHES, 5))
    text = f"# Menu of {week}\n" + "".join(f"\n## {dish}\n\nFor {draw.randint(2, 12)} people.\n" for dish in dishes)
    note, path = f"menus/{week}.md", f"menus/{week}-card.md"
    return to_quote(f"card-{week}", (note, text), dishes, f"{path} has every heading of {note}.", path)


def _guest_book(week: str, draw: random.Random) -> MaterialPiece:
    told = [
        (guest, f"{guest} remembers the {dish.lower()} of {week} {way}.")
        for guest, dish, way in zip(
            draw.sample(_GUESTS, 4), draw.sample(_DISHES, 4), draw.sample(_WAYS, 4), strict=True
        )
    ]
    guest, answer = draw.choice(told)
    question, note, path = f"What does {guest} remember of {week}?", f"menus/{week}-guests.md", f"menus/{week}-reply.md"
    text = f"# Guest book, {week}\n\n" + "".join(f"{line}\n" for _, line in told)
    statement = f"{path} answers “{question}” with the sentence of {note} that does."
    return to_quote(
        f"reply-{week}", (note, text), (answer,), statement, path, AddedLine("menus/questions.md", f"- {question}")
    )


class PantryScript:
    """The pieces of the pantry."""

    mark = ("README.md", "# The pantry")

    def piece(self, seed: int, number: int) -> MaterialPiece:
        """The piece of this number."""
        kinds = (_delivery, _recipe, _usage, _menu, _guest_book)
        week, kind = divmod(number, len(kinds))
        return kinds[kind](f"week-{week + 1}", random.Random(f"{seed}/{number}"))  # noqa: S311 - no secret


def pantry_goals() -> tuple[Goal, ...]:
    """The goals of a new workspace."""
    return (
        Goal(
            id="cellar",
            statement=f"{CELLAR} is committed.",
            check=committed(CELLAR),
        ),
        Goal(
            id="index",
            statement="recipes/index.md has the heading of every recipe.",
            check=FileCheck(
                path="recipes/index.md", contains=("# Rye bread", "# Barley soup", "# Plum jam", "# Pickled beans")
            ),
        ),
        Goal(
            id="words",
            statement="recipes/words.md has every word that is set in bold in the recipes.",
            check=FileCheck(
                path="recipes/words.md",
                contains=(
                    *("**rye flour**", "**sourdough**", "**crumb**", "**barley**", "**Simmer**"),
                    *("**setting point**", "**brine**"),
                ),
            ),
        ),
    )
