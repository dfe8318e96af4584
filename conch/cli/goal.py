"""`conch goal list | add | drop | accept | veto`: the goals of an agent."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, open_bus, say, table
from conch.cli.options import COMMON, AgentName
from conch.cli.people_facts import agent_named, hand_over
from conch.config import Masker
from conch.errors import UsageError
from conch.home import Home
from conch.requests import active_goals, check_of, decide_goal, goal_of, told_by_person
from conch.views import check_words, goals_shown
from conch_schemas import Event, GoalDropped, GoalSet

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.cycle.own_goals.decision import GoalDecision
    from conch.cycle.state.memory import ActiveGoal

app = App(name="goal", help="What the agent is after; each goal has a check that a program decides.")


@app.command(name="list")
async def list_(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """The active goals and how far each has come."""
    home, settings = common.existing(), common.settings()
    name = agent_named(home, settings, agent)
    async with open_bus(home, settings) as bus:
        goals = await active_goals(bus, home, name)
    if common.json:
        emit(goals_shown(goals))
    else:
        table(
            ("goal", "best", "priority", "state", "statement", "check"),
            [_cells(active) for active in goals],
            wraps=["goal", "statement"],
        )
        say(f"{len(goals)} active; those that are over: conch ui, page Needs & drives")


def _cells(active: ActiveGoal) -> tuple[object, ...]:
    goal, best = active.goal, "-" if active.best is None else f"{active.best:.2f}"
    state = "" if not active.own else "accepted" if active.accepted else "proposed"
    return goal.id, best, f"{goal.priority:.2f}", state, goal.statement, check_words(goal.check, hidden=goal.hidden)


@app.command
async def add(
    statement: str,
    /,
    *,
    command: Annotated[str | None, Parameter(help="Reached when this command exits with --exit-status.")] = None,
    exit_status: Annotated[int | None, Parameter(help="Exit status of --command; 0 without it.")] = None,
    file: Annotated[str | None, Parameter(help="Reached when this file of the workspace is there, and holds:")] = None,
    contains: Annotated[list[str] | None, Parameter(negative="", help="this text (repeatable),")] = None,
    equals: Annotated[str | None, Parameter(help="or exactly this text.")] = None,
    tests: Annotated[str | None, Parameter(help="Reached when all tests that this command runs pass.")] = None,
    priority: Annotated[float, Parameter(help="0 to 1; the agent sees the highest first.")] = 0.5,
    deadline: Annotated[datetime | None, Parameter(help="Dropped at this time: 2026-12-24T18:00, local time.")] = None,
    parent: Annotated[str | None, Parameter(help="The goal that it is a part of, reached when all parts are.")] = None,
    hidden: Annotated[bool, Parameter(negative="", help="Tell the agent the statement and the measure alone.")] = False,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Set a goal, with exactly one check: --command, --file or --tests.

    Parameters
    ----------
    statement
        What the agent is told of it.
    """
    check = check_of(command, exit_status, file, contains, equals, tests)
    goal = goal_of(statement, check, priority, deadline, parent, hidden=hidden)

    async def otherwise(bus: Bus, home: Home, name: str) -> Event:
        if parent is not None and parent not in {active.goal.id for active in await active_goals(bus, home, name)}:
            raise UsageError(f"there is no active goal {parent!r} to be a part of: conch goal list shows them")
        return told_by_person(home, name, GoalSet, goal.id, goal=goal, by="user")

    reply = await hand_over(common, agent, "goal", {"add": goal.model_dump(mode="json")}, otherwise)
    _done(common, goal.id, "set" if reply else "set: the agent goes after it when it runs")


@app.command
async def drop(goal: str, /, *, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Give a goal up.

    Parameters
    ----------
    goal
        Its id, as `conch goal list` shows it.
    """

    async def otherwise(bus: Bus, home: Home, name: str) -> Event:
        if goal not in {active.goal.id for active in await active_goals(bus, home, name)}:
            raise UsageError(f"there is no active goal {goal!r}: conch goal list shows them")
        return told_by_person(home, name, GoalDropped, goal, goal=goal)

    await hand_over(common, agent, "goal", {"drop": goal}, otherwise)
    _done(common, goal, "dropped")


@app.command
async def accept(
    goal: str,
    /,
    *,
    because: Annotated[str, Parameter(help="The reason, which is kept with the decision.")] = "",
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Accept a goal that the agent set itself: from now on it pays.

    Parameters
    ----------
    goal
        Its id, as `conch goal list` shows it.
    """
    await _decide(common, agent, goal, "accept", because)


@app.command
async def veto(
    goal: str,
    /,
    *,
    because: Annotated[str, Parameter(help="The reason, which is kept with the decision.")] = "",
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Veto a goal that the agent set itself: it ends, and the agent may not set it again.

    Parameters
    ----------
    goal
        Its id, as `conch goal list` shows it.
    """
    await _decide(common, agent, goal, "veto", because)


async def _decide(common: CommonOptions, agent: str | None, goal: str, said: GoalDecision, why: str) -> None:
    home, settings = common.existing(), common.settings()
    name = agent_named(home, settings, agent)
    reachable = home.running() is not None or settings.bus.url is not None
    async with open_bus(home, settings) as bus:
        again, runs = await decide_goal(
            bus, home, name, goal, said, why, reachable=reachable, masker=Masker.of(settings)
        )
    done: Literal["accepted", "vetoed"] = "accepted" if said == "accept" else "vetoed"
    if common.json:
        from conch.views import GoalDecided

        emit(GoalDecided(goal=goal, agent=name, decision=done, again=again, running=runs))
    else:
        say(f"{goal} was {done} before" if again else f"{goal} {done}")


def _done(common: CommonOptions, goal: str, what: str) -> None:
    if common.json:
        from conch.views import GoalDone

        emit(GoalDone(goal=goal))
    else:
        say(f"{goal} {what}")
