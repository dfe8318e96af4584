"""Kills of a team's process around its switches: what is lost, doubled or left open after the next start."""

from __future__ import annotations

import asyncio
import random
import shutil
from dataclasses import dataclass

from conch.config import TeamSettings
from conch_schemas import (
    ActionTaken,
    Event,
    TeamDecided,
    TeamMessage,
    TeamSwitchAborted,
    TeamSwitched,
    TeamSwitchPrepared,
)
from team.crew import Crew, Killed

SWITCHING = {"controller": {"kind": "random", "dwell": 0, "cooldown": 0}}
"""A team that switches in three of four steps."""
STEPS = 6
"""Steps of each life; a death comes in one of the first."""


@dataclass
class Kills:
    """What the kills came to."""

    kills: int = 0
    in_switches: int = 0
    """Of them, those at the prepare or the end of a switch."""
    lost: int = 0
    """Steps without an act or a decision."""
    doubled: int = 0
    """Facts that are on the stream twice."""
    open: int = 0
    """Switches that were prepared and have no end, and epochs that are skipped or come twice."""


async def killed(number: int, seed: int) -> Kills:
    """So many lives, each killed once at a random publish around a switch, and run to its end."""
    found, draws = Kills(), random.Random(seed)
    while found.kills < number:
        crew = Crew(TeamSettings.model_validate(SWITCHING), seed=draws.randrange(10**6))
        whole = Crew(crew.team, seed=crew.seed)
        await whole.run(STEPS)
        facts = whole.facts()
        around = [
            place + shift
            for place, fact in enumerate(facts)
            if isinstance(fact, TeamSwitchPrepared | TeamSwitched | TeamSwitchAborted)
            for shift in (0, 1)
        ]
        at = draws.choice(around or range(5, len(facts)))
        try:
            await crew.run(STEPS, min(at, len(facts) - 1), stored=draws.random() < 0.5)
        except BaseExceptionGroup as ended:
            if ended.subgroup(Killed) is None:
                raise
        except Killed:
            pass
        at_switch = isinstance(facts[min(at, len(facts) - 1)], TeamSwitchPrepared | TeamSwitched | TeamSwitchAborted)
        await crew.run(STEPS)
        found.kills += 1
        found.in_switches += at_switch
        _check(crew, found)
        for one in (crew, whole):
            shutil.rmtree(one.folder, ignore_errors=True)
    return found


def _check(crew: Crew, found: Kills) -> None:
    facts = crew.facts()
    for kind in (ActionTaken, TeamDecided, TeamMessage):
        found.lost += max(0, STEPS - len(crew.facts(kind)))
    found.doubled += len(facts) - len({fact.id for fact in facts})
    ends: list[Event] = crew.facts(TeamSwitched, TeamSwitchAborted)
    found.open += abs(len(crew.facts(TeamSwitchPrepared)) - len(ends))
    epochs = [fact.epoch for fact in crew.facts(TeamSwitched) if isinstance(fact, TeamSwitched)]
    found.open += epochs != list(range(1, len(epochs) + 1))


def run(number: int, seed: int = 1) -> Kills:
    """See `killed`."""
    return asyncio.run(killed(number, seed))
