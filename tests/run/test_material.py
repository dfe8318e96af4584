"""New material in real runs: once each, whatever is killed; never in a person's own workspace."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from conch.cli.common import open_bus
from conch.config import Settings
from conch.home import Home
from conch.workspace.tidepool import TidepoolScript
from conch_schemas import GoalSet, decode, subject_filter

if TYPE_CHECKING:
    from tests.run.conftest import House, MakeHouse

CYCLES = 106
"""Three pieces come in these, and another three when the goals of the first are dropped."""
NUMBERS = (0, 1, 2, 4, 5, 6)
"""Of the pieces; of the fourth's kind one is open."""


async def pieces(home: Path) -> list[tuple[int | None, str, str]]:
    """Piece, id and origin of every goal that was set with material."""
    async with open_bus(Home(home), Settings()) as bus:
        found = [decode(one.data) async for one in bus.read([subject_filter(GoalSet)])]
    return [
        (fact.piece, fact.goal.id, fact.by) for fact in found if isinstance(fact, GoalSet) and fact.piece is not None
    ]


def test_killed_at_random_each_piece_comes_once(make_house: MakeHouse) -> None:
    """The agent's process is killed again and again; the pieces are those of the seed, in order, with their files."""
    house = make_house(furnished=True)
    draw = random.Random(7)
    live = house.begin("--cycles", str(CYCLES), "--seed", "3", "--script", house.endless())
    for _ in range(4):
        live.recorded(draw.randint(5, 20))
        live.until(lambda: house.process("agent")["pid"], "the agent's process")
        os.kill(house.process("agent")["pid"], signal.SIGKILL)
    assert live.ended(180) == 0, live.told()

    expected = [TidepoolScript().piece(3, number) for number in NUMBERS]
    assert asyncio.run(pieces(house.home)) == [
        (n, piece.goal.id, "home") for n, piece in zip(NUMBERS, expected, strict=True)
    ]
    for piece in expected:
        for path, text in piece.files:
            assert (house.workspace / path).read_text() == text
        if piece.line is not None:
            assert (house.workspace / piece.line.path).read_text().count(piece.line.line) == 1


def test_a_persons_own_workspace_is_left_alone(house: House) -> None:
    """Nothing is written to it and no goal is set."""
    house.run("--cycles", "4", "--script", house.endless())

    assert asyncio.run(pieces(house.home)) == []
    assert [entry.name for entry in house.workspace.iterdir()] == ["readme.txt"]


def test_each_of_several_agents_has_its_own(make_house: MakeHouse) -> None:
    """Of another content, as each has a seed of its own."""
    house = make_house(furnished=True)
    house.run("--agents", "2", "--cycles", "3", "--script", house.endless())

    texts = [(house.workspace / name / "data" / "2026-11.csv").read_text() for name in ("echo-1", "echo-2")]
    assert texts[0] != texts[1]
    assert sorted(found[0] or 0 for found in asyncio.run(pieces(house.home))) == [0, 0, 1, 1]
    for name in ("echo-1", "echo-2"):
        record = json.loads((house.home / "agents" / name / "filled.json").read_text())
        assert record["workspace"] == f"workspace/{name}"
