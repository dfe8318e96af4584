"""Feature vectors of the reflex mind: the situation and each possible call, as numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.minds.embedded.digest import digest
from conch.minds.embedded.templates import KINDS, TEMPLATES, GoalKind, TemplateChoice, goal_files, goal_kind
from conch.minds.protocol import Situation

GROUPS: Final = ("filesystem", "shell", "git", "reply", "DO_NOTHING")
NEEDS: Final = 4
"""Needs with a feature of their own: the first ones in the order of their names."""
MOST_GOALS: Final = 20
"""Goals, the most important first, that features are taken from."""

STARVES: Final = 0.1
"""Satisfaction at or below which a need starves: the default of `needs.starving.level`."""

# A feature's scale is a prior on its weight: a small one is trusted less and explored less. Measured in the workspaces
# tidepool and backlog; none of them favours a template.
_CONTEXT_SCALE = 0.1
_OWN_REPEAT_SCALE = 0.5
_REPEAT_SCALE = 1.0
_RECENT_SCALE = 1.0

CONTEXT: Final = 2 * NEEDS + 3
"""Numbers of a context."""
_SCALES = np.array([1.0] * NEEDS + [_CONTEXT_SCALE] * (CONTEXT - NEEDS))
"""Of the context: a need that starves takes most of what other acts earn, so its feature is trusted at once."""
_TEMPLATES = len(TEMPLATES)
AIM: Final = len(KINDS) + 4
"""Numbers of a call's aim, see `CallChoice`."""
_GROUP = 1
_PAIR = _GROUP + len(GROUPS)
_PLAIN = _PAIR + len(GROUPS) * CONTEXT
_OWN_REPEAT = _PLAIN + _TEMPLATES
_REPEAT = _OWN_REPEAT + _TEMPLATES
_RECENT = _REPEAT + 1
AIMS: Final = _RECENT + 2
"""The first feature of the templates' aims."""
SIZE: Final = AIMS + _TEMPLATES * AIM
"""Features of a choice: 1; its tool; the tool with each part of the context; the template, alone and with a repetition;
whether it is a repetition; how often the template succeeded and discovered lately; the template with each part of its
aim."""


@dataclass(frozen=True)
class TemplateRecord:
    """Recent success of a template, later results weighing more; each 0..1."""

    success: float
    discovery: float
    """How often it brought one of the discoveries that *exploration* pays for."""


class CallChoice(NamedTuple):
    """One of the calls to choose from."""

    template: int
    group: str
    repeated: bool
    """Whether the same call was made before."""
    aim: tuple[float, ...] = (0.0,) * AIM
    """Each 0 or 1: whether all files of the goal are staged (of a call for no goal: any file); whether the one that the
    call is about is; whether the call names a goal's file; whether it follows the last act: for the same goal, after a
    success. Then for each of KINDS whether the call's goal is of it; of a call for no goal whether one of the open
    goals is."""


EVERYTHING: Final = digest(".")
"""Stands for all files where files are staged."""


class LastWork(NamedTuple):
    """What the mind knows of its last acts."""

    staged: Collection[int]
    """Digests of the files that were staged since the last commit; `EVERYTHING` for all."""
    last: str | None
    """The goal that the last act was for; None: for none, or it failed."""


def context(situation: Situation) -> tuple[float, ...]:
    """The features shared by all choices of this decision, each 0..1.

    Whether each need starves; the urgency of the needs; whether the last act failed, whether the last two had the same
    output, whether a message waits for an answer.
    """
    levels = [situation.needs[name] for name in sorted(situation.needs)[:NEEDS]]
    absent = [0.0] * (NEEDS - len(levels))
    last = situation.recent[-2:]
    return (
        *[float(level <= STARVES) for level in levels],
        *absent,
        *[1.0 - level for level in levels],
        *absent,
        float(bool(last) and last[-1].status not in ("success", "none")),
        float(len(last) == 2 and last[0].output == last[1].output),
        float(situation.message is not None),
    )


def aims(situation: Situation, choices: Sequence[TemplateChoice], work: LastWork) -> list[tuple[float, ...]]:
    """`CallChoice.aim` of each choice."""
    goals = situation.goals[:MOST_GOALS]
    files = {goal.id: goal_files(goal, situation.files) for goal in goals}
    named = {file for of_one in files.values() for file in of_one}
    kinds = _among({goal_kind(goal, situation.files) for goal in goals})
    found = []
    for _, call, goal in choices:
        if goal is None:
            about = call.args.get("path", "") in named
            found.append((float(bool(work.staged)), 0.0, float(about), 0.0, *kinds))
            continue
        every = EVERYTHING in work.staged
        staged = every or (bool(goal.files) and all(digest(file) in work.staged for file in goal.files))
        own = every or digest(goal.named or goal.target or "") in work.staged
        names = any(file in text for file in (goal.named, goal.target) if file for text in call.args.values())
        follows = goal.id == work.last
        found.append((float(staged), float(own), float(names), float(follows), *_among({goal.kind})))
    return found


def _among(kinds: Collection[GoalKind]) -> tuple[float, ...]:
    return tuple(float(kind in kinds) for kind in KINDS)


def features(
    about: Sequence[float], choices: Sequence[CallChoice], lately: Mapping[int, TemplateRecord]
) -> NDArray[np.float64]:
    """A row for each choice, shape [n, SIZE]; `about`: see `context`."""
    rows = np.zeros((len(choices), SIZE))
    rows[:, 0] = 1.0
    scaled = _SCALES * np.asarray(about)
    for row, (template, kind, repeated, aim) in zip(rows, choices, strict=True):
        group = GROUPS.index(kind)
        pair, aimed = _PAIR + group * CONTEXT, AIMS + template * AIM
        row[_GROUP + group] = 1.0
        row[pair : pair + CONTEXT] = scaled
        row[_PLAIN + template] = 1.0
        row[_OWN_REPEAT + template] = _OWN_REPEAT_SCALE * repeated
        row[_REPEAT] = _REPEAT_SCALE * repeated
        if went := lately.get(template):
            row[_RECENT] = _RECENT_SCALE * (went.success - 0.5)
            row[_RECENT + 1] = _RECENT_SCALE * (went.discovery - 0.5)
        row[aimed : aimed + AIM] = aim
    return rows


def at_hand(tools: Collection[str]) -> frozenset[str]:
    """The groups that can be chosen from with these tools; resting needs none."""
    return frozenset({*tools, "DO_NOTHING"}) & frozenset(GROUPS)
