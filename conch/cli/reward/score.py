"""`conch reward score`: a person's own score of an act, whenever it comes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from conch.cli.common import Common, emit, say
from conch.cli.facts import names_in, several
from conch.cli.options import COMMON, AgentName, meant
from conch.cli.reward.history import History, history
from conch.config import BUILTIN_COMPONENTS, Settings
from conch.consumer.declare import NAME
from conch.consumer.follow import follow
from conch.errors import UsageError
from conch.needs.fold import HUMAN_SCORER
from conch.text import well_formed
from conch.views.line import signed
from conch_schemas import ActionTaken, RewardAssigned, Score, encode, subject_of

if TYPE_CHECKING:
    from conch_schemas import ExperienceRecorded

RANGE = (-1.0, 1.0)
"""Of a person's component for which `rewards.parts` names no other: blame to praise."""
LONGEST = 1000
"""Characters of the words that come with a score."""


async def score(
    cycle: int,
    /,
    *,
    name: Annotated[str, Parameter(help="The component: any name that is not a built-in part's.")],
    value: Annotated[float, Parameter(help="The score.", allow_leading_hyphen=True)],
    why: Annotated[str, Parameter(help="Your reason, in a sentence.")],
    range_: Annotated[
        tuple[float, float] | None,
        Parameter(
            name="--range",
            negative="",
            help="The least and the greatest score; none: rewards.parts, else -1 1.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    agent: AgentName = None,
    common: Common = COMMON,
) -> None:
    """Score a past act yourself; scored again, your newest score counts and the earlier ones are kept.

    It is paid where the weight set of that act expects NAME from a person (rewards.parts.NAME.scorer: human); a score
    above 0 satisfies needs in any case.

    Parameters
    ----------
    cycle
        The cycle's number.
    """
    home, settings = common.existing(), common.settings()
    limits = range_ or _range(name, settings)
    _refuse(name, value, why, limits)
    if name in settings.rewards.parts and limits != (own := _range(name, settings)):
        given, known = (f"{low:g} {high:g}" for low, high in (limits, own))
        raise UsageError(f"--range {given}: rewards.parts.{name}.range is {known}, and no other counts: leave it out")
    async with history(common) as found:
        there = found.reader.agents()
        who = meant(agent, there, names_in(home, settings))
        if who is None:
            raise several(there)
        act = found.reader.act(who, cycle)
        if act is None:
            last = found.reader.last_cycle(who)
            known = "it has none yet" if last is None else f"the last one is {last}"
            raise UsageError(f"there is no recorded cycle {cycle} of {who}: {known}")
        before = found.reader.cycle(who, cycle)
        said, joined = await _say(found, act, name, value, well_formed(why), limits)
        after = found.reader.cycle(who, cycle) if joined else None
    _tell(common, said, before, after)


def _range(name: str, settings: Settings) -> tuple[float, float]:
    part = settings.rewards.parts.get(name)
    return part.range if part is not None else RANGE


def _refuse(name: str, value: float, why: str, limits: tuple[float, float]) -> None:
    """Raises UsageError for what cannot be a score."""
    low, high = limits
    if name in BUILTIN_COMPONENTS:
        raise UsageError(f"--name {name}: that is a built-in part, which a rule scores: choose a name of your own")
    if not NAME.match(name):
        raise UsageError(f"--name {name[:60]}: a name is small letters, digits, '_' and '-', at most 48")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"--range {low:g} {high:g}: two finite numbers, the lesser first")
    if not low <= value <= high:  # not a number is in no range
        raise UsageError(f"--value {value:g} is outside {low:g}..{high:g} (--range LO HI names another range)")
    if not why.strip():
        raise UsageError("--why needs a text: what the score rests on")
    if len(why) > LONGEST:
        raise UsageError(f"--why has {len(why):,} characters, at most {LONGEST:,} are kept: say it shorter")


async def _say(
    found: History, act: ActionTaken, name: str, value: float, why: str, limits: tuple[float, float]
) -> tuple[RewardAssigned, bool]:
    """The score as it was published, and whether the store has it.

    Its version is the number of this person's score of the act; one that is taken by a score the store has not joined
    yet is passed over.
    """
    known = found.reader.versions(str(act.action_id), HUMAN_SCORER, name)
    number = max((int(version) for version in known if version.isascii() and version.isdigit()), default=0)
    while True:
        number += 1
        score = Score(
            component=name,
            value=value,
            range=limits,
            status="scored",
            explanation=why,
            scorer=HUMAN_SCORER,
            version=str(number),
        )
        said = follow(
            act,
            RewardAssigned,
            consumer=f"{HUMAN_SCORER}-{name}",
            version=str(number),
            scorer=HUMAN_SCORER,
            scores=(score,),
        )
        stored = await found.bus.publish(subject_of(said), encode(said), id=said.id)
        if not stored.duplicate:
            return said, await found.take_in(stored.seq)


def _tell(
    common: Common, said: RewardAssigned, before: ExperienceRecorded | None, after: ExperienceRecorded | None
) -> None:
    score = said.scores[0]
    if common.json:
        emit(
            {
                "schema": "conch.v1.scored",
                "id": said.id,
                "agent": said.agent,
                "cycle": said.cycle,
                "score": score.model_dump(mode="json"),
                "total": None if after is None else after.total,
                "total_before": None if before is None else before.total,
                "revision": None if after is None else after.revision,
            }
        )
        return
    say(f"cycle {said.cycle} of {said.agent}: {score.component} {score.value:+g}, your score number {score.version}")
    if after is None:
        say("it is joined when the store runs, and the act has all its other scores")
    elif before is not None and before.total != after.total:
        say(f"the total was {signed(before.total)} and is {signed(after.total)} (revision {after.revision})")
    else:
        say(f"the total stays {signed(after.total)} (revision {after.revision}): {_unpaid(after, score.component)}")


def _unpaid(after: ExperienceRecorded, component: str) -> str:
    weights = [one.weight for one in after.scores if (one.component, one.scorer) == (component, HUMAN_SCORER)]
    return "caps leave it" if any(weights) else f"the weight set of then pays nothing for {component}"
