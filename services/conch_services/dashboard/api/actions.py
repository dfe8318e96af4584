"""The API's requests that change something: pause, resume, messages, goals, approval and rejection."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException
from starlette.responses import Response

from conch.config import Masker
from conch.errors import UsageError
from conch.requests import (
    APPROVAL,
    LONGEST,
    active_goals,
    check_of,
    goal_of,
    handed_over,
    is_said,
    next_number,
    publish_score,
    said_score,
    score_range,
    told_by_person,
)
from conch.text import cut, well_formed
from conch.views import GoalDone, MessageTold, Scored, State, scored_shown
from conch_schemas import (
    HUMAN_SCORER,
    Check,
    Event,
    GoalDropped,
    GoalSet,
    MessageReceived,
)
from conch_services.dashboard.api.asked import AgentPath, AgentQuery, CycleNumber, TheWorld, document, the_agent
from conch_services.dashboard.api.history import unknown
from conch_services.dashboard.api.problems import responses
from conch_services.dashboard.world import DashboardContext

router = APIRouter()

Words = Annotated[str, StringConstraints(min_length=1, max_length=32_000, pattern=r"\S")]
Command = Annotated[str, StringConstraints(min_length=1, max_length=4000, pattern=r"\S")]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST, pattern=r"\S")]


class _RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MessageRequest(_RequestBody):
    """A message to the agent."""

    text: Words


class CommandChecked(_RequestBody):
    """The check of a goal that is reached when the command exits with the status."""

    kind: Literal["command"]
    command: Command
    exit_status: int = Field(default=0, ge=0, le=255)


class FileChecked(_RequestBody):
    """The check of a goal that is reached when the file is there and holds each of these texts, or exactly that one."""

    kind: Literal["file"]
    path: Annotated[str, StringConstraints(max_length=1000, pattern=r"^(?!/)(?!(.*/)?\.\.(/|$)).*\S.*$")]
    """Inside the workspace."""
    contains: Annotated[list[Annotated[str, StringConstraints(max_length=2000)]], Field(max_length=20)] = []
    equals: Annotated[str, StringConstraints(max_length=4000)] | None = None

    # A pattern that looks ahead is beyond pydantic's own engine.
    model_config = ConfigDict(extra="forbid", regex_engine="python-re")


class TestsChecked(_RequestBody):
    """The check of a goal that is reached when all tests that the command runs pass."""

    kind: Literal["tests"]
    command: Command = "python3 -m unittest"


class NewGoal(_RequestBody):
    """A goal with the check that decides it."""

    statement: Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"\S")]
    check: Annotated[CommandChecked | FileChecked | TestsChecked, Field(discriminator="kind")]
    priority: float = Field(default=0.5, ge=0, le=1)
    deadline: AwareDatetime | None = None
    """When it is dropped, reached or not."""
    parent: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The active goal that it is a part of: that one is reached when all its parts are."""
    hidden: bool = False
    """Whether the agent is told the statement and the measure alone, not the check."""


class DroppedGoal(_RequestBody):
    """The goal to drop."""

    goal: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Approved(_RequestBody):
    """An approval of a cycle, with an optional reason."""

    reason: Annotated[str, StringConstraints(max_length=LONGEST)] = ""


class Rejected(_RequestBody):
    """A rejection of a cycle, with its reason."""

    reason: Reason


@router.post("/agents/{agent}/pause", response_model=State, responses=responses(404, 409))
async def pause(world: TheWorld, agent: AgentPath) -> Response:
    """Let the agent wait before its next cycle. Twice is once."""
    await handed(world, agent, "pause", {})
    return document(State(state="paused"))


@router.post("/agents/{agent}/resume", response_model=State, responses=responses(404, 409))
async def resume(world: TheWorld, agent: AgentPath) -> Response:
    """Let a paused agent go on, or one that was set aside. Twice is once."""
    await handed(world, agent, "resume", {})
    return document(State(state="running"))


@router.post("/agents/{agent}/tell", response_model=MessageTold, responses=responses(404, 409))
async def tell(world: TheWorld, agent: AgentPath, message: MessageRequest) -> Response:
    """Tell the agent something; it reads it in its next cycle, or when it runs again."""
    key, words = str(uuid.uuid4()), cut(well_formed(message.text)).text
    made: list[Event] = []

    async def otherwise() -> Event:
        made.append(told_by_person(world.home, agent, MessageReceived, key, text=words))
        return made[0]

    reply = await handed(world, agent, "say", {"text": words, "sender": "user", "id": key}, otherwise)
    identity = str(reply.get("id") or made[0].id)
    return document(MessageTold(id=identity, running=bool(reply), answer=None))


@router.post("/agents/{agent}/goal", response_model=GoalDone, responses=responses(404, 409))
async def add_goal(world: TheWorld, agent: AgentPath, new: NewGoal) -> Response:
    """Set a goal, with exactly one check: a command, a file of the workspace, or tests."""
    if new.deadline is not None and new.deadline <= datetime.now(UTC):
        raise HTTPException(409, "The deadline has passed: name a later one.")
    try:
        parent = None if new.parent is None else well_formed(new.parent)
        goal = goal_of(new.statement, _checked(new.check), new.priority, new.deadline, parent, hidden=new.hidden)
    except UsageError as error:
        raise HTTPException(422, str(error)) from None

    async def otherwise() -> Event:
        if parent is not None and parent not in await _active(world, agent):
            raise HTTPException(404, "There is no active goal of this id to be a part of: /api/v1/goals shows them.")
        return told_by_person(world.home, agent, GoalSet, goal.id, goal=goal, by="user")

    await handed(world, agent, "goal", {"add": goal.model_dump(mode="json")}, otherwise)
    return document(GoalDone(goal=goal.id))


async def _active(world: DashboardContext, agent: str) -> set[str]:
    """The ids of the active goals."""
    return {active.goal.id for active in await active_goals(world.bus, world.home, agent)}


def _checked(check: CommandChecked | FileChecked | TestsChecked) -> Check:
    """The check by the rules of `conch goal add`. Raises UsageError."""
    match check:
        case CommandChecked():
            return check_of(check.command, check.exit_status, None, None, None, None)
        case FileChecked():
            return check_of(None, None, check.path, check.contains, check.equals, None)
        case _:
            return check_of(None, None, None, None, None, check.command)


@router.post("/agents/{agent}/goal/drop", response_model=GoalDone, responses=responses(404, 409))
async def drop_goal(world: TheWorld, agent: AgentPath, dropped: DroppedGoal) -> Response:
    """Give a goal up."""
    goal = well_formed(dropped.goal)

    async def otherwise() -> Event:
        if goal not in await _active(world, agent):
            raise HTTPException(404, "There is no active goal of this id: /api/v1/goals shows them.")
        return told_by_person(world.home, agent, GoalDropped, goal, goal=goal)

    await handed(world, agent, "goal", {"drop": goal}, otherwise)
    return document(GoalDone(goal=goal))


async def handed(
    world: DashboardContext,
    agent: str,
    verb: str,
    body: dict[str, object],
    otherwise: Callable[[], Awaitable[Event]] | None = None,
) -> dict[str, object]:
    """The agent's reply, or `{}` where it does not run. Answers 404 for an unknown agent, 409 for one that does not run
    or refuses, 503 for one that does not answer."""
    name = await the_agent(world, agent)
    run = world.home.running()
    if otherwise is None and (run is None or (name not in run.agents and run.bus.embedded)):
        world.bus  # noqa: B018 - raises where there is none
        raise HTTPException(409, f"The agent {name} does not run: conch run starts it.")
    return await handed_over(world.bus, world.home, name, verb, body, otherwise, masker=Masker.of(world.settings))


@router.post("/cycles/{cycle}/approve", response_model=Scored, responses=responses(404, 409))
async def approve(
    world: TheWorld, cycle: CycleNumber, said: Approved | None = None, agent: AgentQuery = None
) -> Response:
    """Say that what the agent did was right: your own score `approval` of 1. The same click again is once."""
    return await _scored(world, agent, cycle, 1.0, (said.reason if said else "").strip() or "approved")


@router.post("/cycles/{cycle}/reject", response_model=Scored, responses=responses(404, 409))
async def reject(world: TheWorld, cycle: CycleNumber, said: Rejected, agent: AgentQuery = None) -> Response:
    """Say that what the agent did was wrong, and why: your own score `approval` of -1. The same click again is once."""
    return await _scored(world, agent, cycle, -1.0, said.reason.strip())


async def _scored(world: DashboardContext, agent: str | None, cycle: int, value: float, why: str) -> Response:
    name, why = await the_agent(world, agent), well_formed(why)
    act, whole = await world.read(lambda reader: (reader.cycles.act(name, cycle), reader.cycles.get(name, cycle)))
    if act is None:
        raise unknown(name, cycle)
    versions = await world.read(lambda reader: reader.backfill.versions(str(act.action_id), HUMAN_SCORER, APPROVAL))
    limits = score_range(APPROVAL, world.settings)
    if not limits[0] <= value <= limits[1]:
        raise HTTPException(409, f"rewards.parts.{APPROVAL}.range leaves out {value:g}: nothing was scored.")
    number = next_number(versions)
    if is_said(whole, APPROVAL, value, why):
        number -= 1  # it is on the stream, and joined: the same click once more
        said = said_score(act, APPROVAL, value, why, limits, number)
    else:
        said = await publish_score(world.bus, act, APPROVAL, value, why, limits, number)
    return document(scored_shown(said, None if whole is None else whole.total))
