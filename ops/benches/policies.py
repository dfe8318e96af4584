"""Fixed policies: the embedded mind with a memory written by hand, so certain of it that no reward changes it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from conch.minds import Situation
from conch.minds.embedded.features import CONTEXT, SIZE, STAGED, CallChoice, features
from conch.minds.embedded.memory import BanditMemory, save
from conch.minds.embedded.templates import TEMPLATES, fill_slots
from conch_schemas import CommandCheck, FileCheck, Goal

STEP = 2.0
"""Worth of a template above the next one in a list: more than the penalty for rewards that are awaited."""
REPEATED = 100.0
"""How much less a call is worth that was made before: nothing but a rest is repeated while there is another call."""
CERTAIN = 1e9
"""Weight of the memory against one reward."""

POLICIES: Mapping[str, tuple[str, ...]] = {
    "goals": (
        "commit",  # only where something is staged
        "make the correction that a goal asks for",
        "keep what the goal's tests say",
        "add up the columns that a goal names",
        "copy the lines that a goal's file lacks",
        "stage the file that a goal names",
        "read the file that a goal names",
        "read a file",
        "run a goal's check",
        "rest",
    ),
    "read": ("read a file", "read a passage", "see a file's first lines", "list a folder"),
    "search": ("search everything for a word", "search a file for a word", "see a line and its neighbours"),
    "write": ("write a draft", "write a sentence down", "copy a file's beginning", "begin the goal's file"),
    "rest": ("rest",),
}
"""Lists of templates: of those that can be filled, the first one's call is made."""


def write_policy(name: str, path: Path) -> None:
    """Write the memory of a mind that goes by this list for ever."""
    order, groups = POLICIES[name], _groups()
    staged = np.zeros(CONTEXT)
    staged[STAGED] = 1.0
    calm, rows, worth = np.zeros(CONTEXT), [], []
    for number, template in enumerate(TEMPLATES):
        value = STEP * (len(order) - order.index(template.name)) if template.name in order else -STEP
        for prose, repeated in ((False, False), (True, False), (False, True)):
            waits = template.name == "commit" and template.name in order
            less = REPEATED * (repeated and template.name != "rest")
            choice = CallChoice(number, groups[number], repeated, prose)
            rows.append(features(calm, [choice], {})[0])
            worth.append((-STEP if waits else value) - less)
            if waits:
                rows.append(features(staged, [choice], {})[0])
                worth.append(value - less)
    theta = np.linalg.lstsq(np.array(rows), np.array(worth), rcond=None)[0]
    memory = BanditMemory()
    memory.bandit.A = CERTAIN * np.eye(SIZE)
    memory.bandit.b = CERTAIN * theta
    memory.tries[:, 0] = 1
    save(memory, path)


def _groups() -> list[str]:
    """The tool of each template."""
    goals = (
        Goal(id="f", statement="x.md has the sums of a.csv.", check=FileCheck(path="x.md", contains=("x",))),
        Goal(id="t", statement="y.md has what a.py says.", check=FileCheck(path="y.md", contains=("y",))),
        Goal(id="c", statement="In a.csv, `x` should read `y`.", check=CommandCheck(command="true")),
    )
    situation = Situation(
        agent="echo", cycle=1, needs={"rest": 0.5}, pressing={}, need="rest", goals=goals, message="well?",
        files=("a.csv", "a.py"),
    )  # fmt: skip
    found: dict[int, str] = {}
    draw = random.Random(0)
    while len(found) < len(TEMPLATES):
        slots = fill_slots(situation, ("tide",), draw)
        found |= {n: call.kind for n, one in enumerate(TEMPLATES) if (call := one.make(slots)) is not None}
    return [found[number] for number in range(len(TEMPLATES))]
