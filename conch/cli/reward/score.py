"""`conch reward score`: publish a person's own score of an act, at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from conch.cli.common import CommonOptions, emit, say
from conch.cli.options import COMMON, AgentName, meant
from conch.cli.people_facts import names_in, several
from conch.cli.reward.history import RecordedHistory, history
from conch.errors import UsageError
from conch.experience import removed_words
from conch.requests import next_number, refuse_score, said_score, score_range
from conch.text import well_formed
from conch.views import signed
from conch_schemas import HUMAN_SCORER, ActionTaken, RewardAssigned, encode, subject_of

if TYPE_CHECKING:
    from conch_schemas import ExperienceRecorded


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
    common: CommonOptions = COMMON,
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
    limits = range_ or score_range(name, settings)
    refuse_score(name, value, why, limits)
    if name in settings.rewards.parts and limits != (own := score_range(name, settings)):
        given, known = (f"{low:g} {high:g}" for low, high in (limits, own))
        raise UsageError(f"--range {given}: rewards.parts.{name}.range is {known}, and no other counts: leave it out")
    async with history(common) as found:
        there = found.reader.agents()
        who = meant(agent, there, names_in(home, settings))
        if who is None:
            raise several(there)
        act = found.reader.cycles.act(who, cycle)
        if act is None:
            last = found.reader.cycles.last_cycle(who)
            known = "it has none yet" if last is None else f"the last one is {last}"
            removed = removed_words(found.reader.retention.removals(who), who, cycle)
            raise UsageError(f"{removed or f'there is no recorded cycle {cycle} of {who}'}: {known}")
        before = found.reader.cycles.get(who, cycle)
        said, joined = await _say(found, act, name, value, well_formed(why), limits)
        after = found.reader.cycles.get(who, cycle) if joined else None
    _tell(common, said, before, after)


async def _say(
    found: RecordedHistory, act: ActionTaken, name: str, value: float, why: str, limits: tuple[float, float]
) -> tuple[RewardAssigned, bool]:
    """The score as it was published, and whether the store has it.

    Its version is the number of this person's score of the act; one that is taken by a score the store has not joined
    yet is passed over.
    """
    number = next_number(found.reader.backfill.versions(str(act.action_id), HUMAN_SCORER, name))
    while True:
        said = said_score(act, name, value, why, limits, number)
        stored = await found.bus.publish(subject_of(said), encode(said), id=said.id)
        if not stored.duplicate:
            return said, await found.take_in(stored.seq)
        number += 1


def _tell(
    common: CommonOptions, said: RewardAssigned, before: ExperienceRecorded | None, after: ExperienceRecorded | None
) -> None:
    score = said.scores[0]
    if common.json:
        from conch.views import scored_shown

        total = None if before is None else before.total
        emit(scored_shown(said, total) if after is None else scored_shown(said, total, after.total, after.revision))
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
