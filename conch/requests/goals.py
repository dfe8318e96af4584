"""Goals: those that people set, those that an agent has, and decisions on those that it set itself."""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from conch.config import NO_SECRETS, Masker
from conch.errors import UsageError
from conch.home import Home
from conch.requests.ask import handed_over, told_by_person
from conch.teams import TeamState
from conch.text import well_formed
from conch_schemas import CommandCheck, Event, FileCheck, Goal, GoalAccepted, GoalDropped, TestsCheck

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.cycle.own_goals.decision import GoalDecision
    from conch.cycle.state.memory import ActiveGoal, AgentMemory


def goal_id(statement: str) -> str:
    """The first words of the statement and four random digits: a goal that was dropped can be set again."""
    plain = unicodedata.normalize("NFKD", statement).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain)[:4]
    return "-".join([*(word[:16] for word in words), secrets.token_hex(2)])


def goal_of(
    statement: str,
    check: CommandCheck | FileCheck | TestsCheck,
    priority: float,
    deadline: datetime | None = None,
    parent: str | None = None,
    *,
    hidden: bool = False,
) -> Goal:
    """A goal with an id of its own. `deadline`: without a time zone it is in this machine's; `parent`: the id of the
    goal that it is a part of; `hidden`: whether the mind is not told the check. Raises UsageError for what cannot be
    one, and for a deadline that has passed."""
    statement = well_formed(statement).strip()
    if not statement:
        raise UsageError("a goal needs a statement: conch goal add 'what is to be reached' and its check")
    try:
        until = None if deadline is None else deadline.astimezone(UTC)
    except (OverflowError, ValueError, OSError):
        raise UsageError(f"the deadline {deadline} lies beyond the calendar: name another one") from None
    if until is not None and until <= datetime.now(UTC):
        raise UsageError(f"the deadline {until:%Y-%m-%d %H:%M} UTC has passed: name a later one")
    try:
        return Goal(
            id=goal_id(statement),
            statement=statement,
            check=check,
            priority=priority,
            deadline=until,
            parent=parent,
            hidden=hidden,
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UsageError(f"{first['loc'][0]}: {first['msg']}") from None


def check_of(
    command: str | None,
    exit_status: int | None,
    file: str | None,
    contains: Sequence[str] | None,
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


async def active_goals(bus: Bus, home: Home, agent: str) -> list[ActiveGoal]:
    """The goals as of the end of the stream; none for an agent that was never made."""
    return list((await _memory(bus, home, agent)).goals.values())


async def team_state(bus: Bus, home: Home, agent: str) -> TeamState | None:
    """The team that an agent is, as of the end of the stream; None: it has not begun, or is no team."""
    return (await _memory(bus, home, agent)).team


async def decide_goal(
    bus: Bus,
    home: Home,
    agent: str,
    goal: str,
    said: GoalDecision,
    why: str,
    *,
    reachable: bool = True,
    masker: Masker = NO_SECRETS,
) -> tuple[bool, bool]:
    """Accept or veto a goal that the agent set itself. Returns whether that was done before, and whether it runs.

    The decision on a goal of an agent that does not run is published for its next run.

    Raises UsageError for an acceptance after a veto and for a goal that is over or not the agent's own; ConchError with
    the agent's refusal. `reachable` and `masker` as of `handed_over`.
    """
    from conch.cycle.own_goals.decision import is_decided, reason_of

    async def otherwise() -> Event:
        if is_decided(await _memory(bus, home, agent), goal, said):
            raise _DecidedError
        if said == "accept":
            return told_by_person(home, agent, GoalAccepted, goal, goal=goal, why=reason_of(why))
        return told_by_person(home, agent, GoalDropped, goal, goal=goal, why=reason_of(why), vetoed=True)

    request = {said: goal, "why": why}
    try:
        reply = await handed_over(bus, home, agent, "goal", request, otherwise, reachable=reachable, masker=masker)
    except _DecidedError:
        return True, False
    return reply.get("again") is True, bool(reply)


class _DecidedError(Exception):
    """The decision was taken before: nothing is to be published."""


async def _memory(bus: Bus, home: Home, agent: str) -> AgentMemory:
    """The agent's memory as of the end of the stream; an empty one of an agent that was never made."""
    from conch.cycle.state.memory import AgentMemory
    from conch.cycle.state.recover import RecoveryStart, recover

    if not (home.agent_dir(agent) / "agentuid").exists():
        return AgentMemory()
    return (await recover(bus, agent, RecoveryStart(home.agentuid(agent)))).memory
