"""Fixed policies: the embedded mind with a memory written by hand, so certain of it that no reward changes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from conch.minds.embedded.features import AIM, CONTEXT, SIZE, CallChoice, features
from conch.minds.embedded.memory import BanditMemory, save
from conch.minds.embedded.templates import TEMPLATES

STEP = 2.0
"""Worth of a template above the next one in a list: more than the penalty for rewards that are awaited."""
REPEATED = 100.0
"""How much less a call is worth that was made before: nothing but a rest is repeated while there is another call."""
CERTAIN = 1e9
"""Weight of the memory against one reward."""

POLICIES: Mapping[str, tuple[str, ...]] = {
    "goals": (
        "commit",  # only where all files of its goal are staged
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
    "rest": ("rest",),
}
"""Lists of templates: of those that can be filled, the first one's call is made."""


def write_policy(name: str, path: Path) -> None:
    """Write the memory of a mind that goes by this list for ever."""
    order = POLICIES[name]
    calm, rows, worth = np.zeros(CONTEXT), [], []
    staged = (1.0, *[0.0] * (AIM - 1))
    for number, template in enumerate(TEMPLATES):
        value = STEP * (len(order) - order.index(template.name)) if template.name in order else -STEP
        waits = template.name == "commit" and template.name in order
        for repeated in (False, True):
            less = REPEATED * (repeated and template.name != "rest")
            rows.append(features(calm, [CallChoice(number, template.group, repeated)], {})[0])
            worth.append((-STEP if waits else value) - less)
            if waits:
                rows.append(features(calm, [CallChoice(number, template.group, repeated, staged)], {})[0])
                worth.append(value - less)
    theta = np.linalg.lstsq(np.array(rows), np.array(worth), rcond=None)[0]
    memory = BanditMemory()
    memory.bandit.A = CERTAIN * np.eye(SIZE)
    memory.bandit.b = CERTAIN * theta
    memory.tries[:, 0] = 1
    save(memory, path)
