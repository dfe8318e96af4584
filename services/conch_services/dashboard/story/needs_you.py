"""What waits for a person, of all agents: approvals, goals that an agent proposed, alarms, rules that fail, dead
letters, refused and failed rounds of training, needs that starve."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from conch.consumer.operations import watched
from conch.consumer.runtime import open_dead_letters
from conch.experience import ExperienceReader
from conch.requests import WaitingDecisions, acknowledged, waiting_decisions
from conch.rewards.watch import MEANINGS, bounds
from conch.text import safe_text
from conch.training import lineage_of
from conch.views import AlarmRow, alarm_rows, approvals_shown, check_words, why_ended
from conch_schemas import AlarmKind
from conch_services.dashboard.asking import QueryResult, asked
from conch_services.dashboard.drawings.numerals import fixed
from conch_services.dashboard.page import agents_of
from conch_services.dashboard.story.round_ends import round_end
from conch_services.dashboard.world import DashboardContext

MOST_AGENTS = 200
"""Agents that are looked at, the first by name."""
FAILING_LAST = 400
"""Experiences of all agents over which the failures of rules are counted."""
MOST_WHY = 200
"""Characters of why a round ended."""
MOST_SHOWN = 12
MOST_STARVING = 8
"""Rows of needs that starve."""
MOST_NAMED = 2
"""Agents that a row of several names, the first; the others are counted."""
MOST_LINKED = 12
"""Agents that a row of several leads to."""


class NeedsYou(NamedTuple):
    """One thing that waits for a person."""

    kind: str
    """One word: approval, goal, alarm, rule, letters, gate, training, need."""
    severity: str
    """`serious` or `warning`."""
    agent: str
    """Empty: of none alone."""
    words: str
    note: str
    """A figure."""
    task: str
    """What to do, in a few words."""
    advice: str
    """The same in a sentence."""
    path: str
    """The page where that is done, with its query."""
    alarm: AlarmKind | None = None
    """The alarm that it is; None: it is none."""
    component: str | None = None
    """The component that the alarm is about."""
    act: str = ""
    """The id of the act that waits for an approval; empty: it is none."""
    each: Sequence[tuple[str, str]] = ()
    """(agent, the page of this about it) of one thing of several agents; empty: it is of one."""


class Waiting(NamedTuple):
    """All that waits."""

    found: Sequence[NeedsYou]
    """The serious ones first; at most MOST_SHOWN, and MOST_STARVING needs among them."""
    more: int
    """Rows that are left out."""
    unknown: str
    """Why some of it is not known; empty: it is."""
    is_read: bool = True
    """False: it is being looked at."""


async def waiting(world: DashboardContext) -> Waiting:
    """What waits now. Without the bus only what the store knows. A team that has ended needs nothing any more but a
    decision that it waits for."""
    agents = (await agents_of(world))[:MOST_AGENTS]
    several = len(agents) > 1
    decisions: QueryResult[Mapping[str, WaitingDecisions]] = await asked(_decisions(world, agents))
    going = _going_on(world, agents, decisions.found or {})
    of_bus: QueryResult[list[NeedsYou]] = await asked(_of_bus(world, going, several=several))
    of_store = await asked(world.read(lambda reader: _of_store(reader, world, going, several=several)))
    rows = grouped([*_decided(decisions.found or {}, several=several), *(of_bus.found or ()), *(of_store.found or ())])
    rows.sort(key=lambda one: one.severity != "serious")
    starving = [one for one in rows if one.kind == "need"][MOST_STARVING:]
    shown = [one for one in rows if one not in starving][:MOST_SHOWN]
    return Waiting(shown, len(rows) - len(shown), decisions.why or of_bus.why)


def grouped(found: Sequence[NeedsYou]) -> list[NeedsYou]:
    """The same, with one row for an alarm or a need that several agents have, where the first of them was."""
    alike: dict[object, list[NeedsYou]] = {}
    for one in found:
        is_of_kind = one.kind == "need" or one.alarm
        alike.setdefault(
            (one.kind, one.component, None if one.alarm else one.words) if is_of_kind else id(one), []
        ).append(one)
    return [some[0] if len(some) == 1 else _of_several(some) for some in alike.values()]


def _of_several(some: Sequence[NeedsYou]) -> NeedsYou:
    first, left = some[0], len(some) - MOST_NAMED
    names = (", " if left else " and ").join(one.agent for one in some[:MOST_NAMED])
    what = (first.component or first.kind) if first.alarm else first.words
    return first._replace(
        severity="serious" if any(one.severity == "serious" for one in some) else first.severity,
        agent="",
        words=f"{what}: {names}{f' and {left:,} more' if left else ''}",
        note=f"{len(some):,} agents",
        task="look at each" if first.alarm else first.task,
        advice=MEANINGS[first.alarm] if first.alarm else first.advice,
        path="/agents?sort=alarms" if first.alarm else "/agents",
        alarm=None,
        component=None,
        each=[(one.agent, one.path) for one in some[:MOST_LINKED]],
    )


async def _decisions(world: DashboardContext, agents: Sequence[str]) -> Mapping[str, WaitingDecisions]:
    return await waiting_decisions(world.bus, world.home, agents)


def _going_on(
    world: DashboardContext, agents: Sequence[str], decisions: Mapping[str, WaitingDecisions]
) -> Sequence[str]:
    """The agents without the teams that have ended: those that no run of the home has. A bus of somewhere else may have
    their run."""
    if world.settings.bus.url is not None:
        return agents
    run = world.home.running()
    runs = run.agents if run is not None else ()
    return [name for name in agents if name in runs or name not in decisions or not decisions[name].is_team]


def _decided(decisions: Mapping[str, WaitingDecisions], *, several: bool) -> list[NeedsYou]:
    acts = approvals_shown([one.act for one in decisions.values() if one.act is not None]).acts
    return [
        *(
            NeedsYou(
                "approval",
                "serious",
                one.agent,
                f"Waits for your approval: {safe_text(one.words, one_line=True)}",
                f"cycle {one.cycle}",
                "approve or deny it",
                "Approve or deny it; without a decision it is denied in the end.",
                _of(one.agent, "/", several=several),
                act=one.id,
            )
            for one in acts
        ),
        *(
            NeedsYou(
                "goal",
                "warning",
                agent,
                f"Set itself a goal: {safe_text(goal.statement, one_line=True)}",
                "",
                "accept or veto it",
                "Accept it, then it pays, or veto it, then it ends; until then the agent goes after it for no reward. "
                f"Its check: {safe_text(check_words(goal.check), one_line=True)}.",
                f"{_of(agent, '/overview', several=several)}#goals",
            )
            for agent, one in decisions.items()
            for goal in one.goals
        ),
    ]


async def _of_bus(world: DashboardContext, agents: Sequence[str], *, several: bool) -> list[NeedsYou]:
    bus = world.bus
    states = await watched(bus, agents)
    alarms = alarm_rows(states, world.settings, await asyncio.to_thread(acknowledged, world.home))
    letters = Counter([letter.consumer async for letter in open_dead_letters(bus)])
    return [
        *(_alarm(one, several=several) for one in alarms if one.acknowledged is None),
        *(
            NeedsYou(
                "letters",
                "serious",
                "",
                f"{consumer} could not handle {count} {'event' if count == 1 else 'events'}",
                "",
                "mend the cause",
                "Read why, mend the cause, then have them handled again with Retry, there.",
                "/bus",
            )
            for consumer, count in letters.most_common()
        ),
    ]


def _alarm(one: AlarmRow, *, several: bool) -> NeedsYou:
    of = f"{one.component}: " if one.component else ""
    return NeedsYou(
        one.name,
        one.severity,
        one.agent,
        f"{of}{safe_text(one.what, one_line=True)}",
        f"since {one.since:,}" if one.since is not None else "",
        "look, then acknowledge",
        f"{MEANINGS[one.alarm]} ({bounds(one.alarm, one.value if one.now is None else one.now, one.threshold)})",
        _of(one.agent, "/alarms", several=several),
        one.alarm,
        one.component,
    )


def _of_store(
    reader: ExperienceReader, world: DashboardContext, agents: Sequence[str], *, several: bool
) -> list[NeedsYou]:
    level = world.settings.needs.starving.level
    return [
        *_failing(reader),
        *_untrained(reader, agents, several=several),
        *_starving(reader, level, agents, several=several),
    ]


def _untrained(reader: ExperienceReader, agents: Sequence[str], *, several: bool) -> list[NeedsYou]:
    """The newest round of each agent, where its adapter was refused or it failed; the next round takes the row away."""
    found = []
    for agent in agents:
        state = lineage_of(reader.training.walk(agent, progress=False))
        newest = state.round
        end = None if newest is None else round_end(newest)
        if newest is None or end is None:
            continue
        why = safe_text(why_ended(newest), one_line=True)[:MOST_WHY]
        found.append(
            NeedsYou(
                "gate" if end.is_refused else "training",
                "warning",
                agent,
                f"{end.words} of round {len(state.rounds)}: {why}",
                "",
                end.task,
                end.advice,
                f"{_of(agent, '/training', several=several)}#round-title",
            )
        )
    return found


def _failing(reader: ExperienceReader) -> list[NeedsYou]:
    found = []
    for one in reader.charts.component_stats(None, FAILING_LAST):
        failed = one.errors + one.timeouts
        if not failed:
            continue
        late = one.timeouts == failed
        found.append(
            NeedsYou(
                "rule",
                "serious" if one.errors else "warning",
                "",
                _failed(one.component, failed, one.count, late=late),
                "",
                "mend the rule",
                "Look at its last errors, and mend the rule or its judge.",
                f"/rewards/component/{quote(one.component, safe='')}",
            )
        )
    return found


def _failed(component: str, failed: int, count: int, *, late: bool) -> str:
    return f"{component} {'came too late for' if late else 'could not score'} {failed} of the last {count} acts"


def _starving(reader: ExperienceReader, level: float, agents: Sequence[str], *, several: bool) -> list[NeedsYou]:
    starving = sorted(
        (satisfied, agent, need)
        for agent in agents
        for change in reader.charts.needs_history(agent, 1)
        for need, satisfied in change.after.items()
        if satisfied <= level
    )
    return [
        NeedsYou(
            "need",
            "warning",
            agent,
            f"{need} starves",
            fixed(satisfied, 2),
            "give it a goal that feeds it",
            "See what feeds it and what drains it, and give the agent a goal whose acts feed it.",
            _of(agent, "/needs", several=several),
        )
        for satisfied, agent, need in starving
    ]


def _of(agent: str, path: str, *, several: bool) -> str:
    return f"{path}?agent={quote(agent, safe='')}" if several else path
