"""`conch goal list | add | drop`."""

from __future__ import annotations

import re
import secrets
import unicodedata
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from pydantic import ValidationError

from conch.cli.common import Common, emit, open_bus, say, table
from conch.cli.facts import agent_named, hand_over, told_by_person
from conch.cli.options import COMMON, AgentName
from conch.errors import ConchError, UsageError
from conch.home import Home
from conch.text import well_formed
from conch_schemas import Check, CommandCheck, Event, FileCheck, Goal, GoalDropped, GoalSet, TestsCheck

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.cycle.memory import ActiveGoal

app = App(name="goal", help="What the agent is after; each goal has a check that a program decides.")


@app.command(name="list")
async def list_(*, agent: AgentName = None, common: Common = COMMON) -> None:
    """The active goals and how far each has come."""
    home, settings = common.existing(), common.settings()
    name = agent_named(home, settings, agent)
    async with open_bus(home, settings) as bus:
        goals = await active_goals(bus, home, name)
    rows = [active.goal.model_dump(mode="json") | {"best": active.best, "tried": active.tried} for active in goals]
    if common.json:
        emit({"schema": "conch.v1.goals", "goals": rows})
    else:
        table(
            ("goal", "best", "priority", "statement", "check"),
            [_cells(active) for active in goals],
            wraps=["statement"],
        )


def _cells(active: ActiveGoal) -> tuple[object, ...]:
    goal, best = active.goal, "-" if active.best is None else f"{active.best:.2f}"
    return goal.id, best, f"{goal.priority:.2f}", goal.statement, check_words(goal.check)


def check_words(check: Check) -> str:
    """A check in a few words."""
    match check:
        case CommandCheck():
            return f"{check.command} exits with {check.exit_status}"
        case FileCheck():
            what = "is as given" if check.equals is not None else f"has {', '.join(check.contains)}"
            return f"{check.path} {what if check.equals is not None or check.contains else 'exists'}"
        case TestsCheck():
            return f"tests pass: {check.command}"


async def active_goals(bus: Bus, home: Home, agent: str) -> list[ActiveGoal]:
    """The goals as of the end of the stream; none for an agent that was never made."""
    from conch.cycle.recover import Origin, recover

    if not (home.agent_dir(agent) / "agentuid").exists():
        return []
    found = await recover(bus, agent, Origin(home.agentuid(agent)))
    return list(found.memory.goals.values())


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
    priority: Annotated[float, Parameter(help="0 to 1.")] = 0.5,
    agent: AgentName = None,
    common: Common = COMMON,
) -> None:
    """Set a goal, with exactly one check: --command, --file or --tests.

    Parameters
    ----------
    statement
        What the agent is told of it.
    """
    check = _check(command, exit_status, file, contains, equals, tests)
    statement = well_formed(statement).strip()
    try:
        goal = Goal(id=goal_id(statement), statement=statement, check=check, priority=priority)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UsageError(f"{first['loc'][0]}: {first['msg']}") from None

    async def otherwise(_: Bus, home: Home, name: str) -> Event:
        return told_by_person(home, name, GoalSet, goal.id, goal=goal, by="user")

    reply = await hand_over(common, agent, "goal", {"add": goal.model_dump(mode="json")}, otherwise)
    _done(common, goal.id, "set" if reply else "set: the agent goes after it when it runs")


@app.command
async def drop(goal: str, /, *, agent: AgentName = None, common: Common = COMMON) -> None:
    """Give a goal up.

    Parameters
    ----------
    goal
        Its id, as `conch goal list` shows it.
    """

    async def otherwise(bus: Bus, home: Home, name: str) -> Event:
        if goal not in {active.goal.id for active in await active_goals(bus, home, name)}:
            raise ConchError(f"there is no active goal {goal!r}: conch goal list shows them")
        return told_by_person(home, name, GoalDropped, goal, goal=goal)

    await hand_over(common, agent, "goal", {"drop": goal}, otherwise)
    _done(common, goal, "dropped")


def _done(common: Common, goal: str, what: str) -> None:
    if common.json:
        emit({"schema": "conch.v1.goal", "goal": goal})
    else:
        say(f"{goal} {what}")


def goal_id(statement: str) -> str:
    """The first words of the statement and four random digits: a goal that was dropped can be set again."""
    plain = unicodedata.normalize("NFKD", statement).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain)[:4]
    return "-".join([*(word[:16] for word in words), secrets.token_hex(2)])


def _check(
    command: str | None,
    exit_status: int | None,
    file: str | None,
    contains: list[str] | None,
    equals: str | None,
    tests: str | None,
) -> CommandCheck | FileCheck | TestsCheck:
    """The one check that was named. Raises UsageError for none, several, or options of another one."""
    if sum(one is not None for one in (command, file, tests)) != 1:
        raise UsageError("a goal needs exactly one check: --command CMD, --file PATH or --tests CMD")
    if command is None and exit_status is not None:
        raise UsageError("--exit-status goes with --command")
    if file is None and (contains or equals is not None):
        raise UsageError("--contains and --equals go with --file")
    given: Any = command or file or tests
    if not given or not given.strip():
        raise UsageError("a check needs a command or a file, not an empty text")
    if command is not None:
        return CommandCheck(command=command, exit_status=exit_status or 0)
    if tests is not None:
        return TestsCheck(command=tests)
    path = PurePosixPath(given)
    if path.is_absolute() or ".." in path.parts:
        raise UsageError(f"--file {given}: a path inside the workspace")
    return FileCheck(path=str(path), contains=tuple(contains or ()), equals=equals)
