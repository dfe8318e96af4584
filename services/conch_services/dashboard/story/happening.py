"""What an agent does now: from the store, the stream, and the agent itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import reduce
from typing import Final

from starlette.requests import Request

from conch.bus import decoded
from conch.errors import ConchError
from conch.experience import ExperienceReader
from conch.requests import ask
from conch.tasks import concurrently
from conch_schemas import (
    ActApproved,
    ActAsked,
    ActDenied,
    ActionDecided,
    ActionTaken,
    AgentSlept,
    AgentWoke,
    ContractViolationError,
    Event,
    ExperienceRecorded,
    ThoughtFormed,
    control_subject,
    subject_filter,
)
from conch_services.dashboard.asking import asked, kept
from conch_services.dashboard.story.now import ReplySoFar, RightNow, told_of, with_reply
from conch_services.dashboard.stream.hub import LIVE
from conch_services.dashboard.world import DashboardContext

WRITTEN_SECONDS: Final = 0.25
"""Seconds for which an agent is not asked again what its mind writes, for all open pages."""
ANSWER_SECONDS: Final = 0.3
"""Timeout of its answer."""
BEGUN: Final[tuple[type[Event], ...]] = (ThoughtFormed, ActAsked, ActApproved, ActDenied, ActionDecided)
"""What comes in a cycle before its act, in this order."""
SLEEPS: Final[tuple[type[Event], ...]] = (AgentSlept, AgentWoke)
"""What says whether an agent sleeps."""
SILENT_MINDS: Final = ("reflex", "scripted")
"""Minds that give their replies in one piece, at once."""


async def happens_now(request: Request, agent: str) -> tuple[int, RightNow]:
    """(the store's position, what happens now): the store's last cycle, what of the open cycle is on the stream, and
    what the mind writes."""
    world: DashboardContext = request.app.state.world
    found = await asked(world.read(lambda reader: _stored(reader, agent)))
    place, some = found.found or (0, [])
    begun = await concurrently(lambda kind: _newest(world, agent, kind), BEGUN)  # the store may have them already
    behind = world.hub.behind(place, agent, (ActionTaken, ExperienceRecorded))
    slept = await concurrently(lambda kind: _newest(world, agent, kind), SLEEPS)
    now = reduce(
        told_of,
        (*(one for one in begun if one is not None and _is_open(one, some)), *behind, *_sleep(slept)),
        reduce(told_of, some, RightNow()),
    )
    if is_written(world):
        reply: ReplySoFar | None = await kept(request, "written", WRITTEN_SECONDS).get(
            agent, lambda: _writes(world, agent)
        )
        now = now if reply is None else with_reply(now, reply, time.time())
    return place, now


async def _newest(world: DashboardContext, agent: str, kind: type[Event]) -> Event | None:
    """The agent's newest event of this type, of the hub, else of the stream; None where it is not known."""
    if (heard := world.hub.newest(agent, kind)) is not None:
        return heard
    try:
        last = await world.bus.last(subject_filter(kind, agent))
        return None if last is None else decoded(last.subject, last.data)
    except (ConchError, ContractViolationError):
        return None


def _sleep(newest: Sequence[Event | None]) -> list[Event]:
    """The newest sleep, where no wake has ended it."""
    slept, woke = newest
    if not isinstance(slept, AgentSlept):
        return []
    return [] if isinstance(woke, AgentWoke) and woke.number >= slept.number else [slept]


def _is_open(event: Event, stored: Sequence[Event]) -> bool:
    """Whether the event is of a cycle that the store has no act of."""
    return event.cycle is not None and all(one.cycle is None or event.cycle > one.cycle for one in stored)


def is_written(world: DashboardContext) -> bool:
    """Whether an agent of this home has a mind whose replies come piece by piece, and there is a run to ask."""
    roles = (role for team in world.settings.team.values() for role in team.roles.values())
    minds = [*world.settings.mind.blocks().values(), *(one.mind for one in roles if one.mind is not None)]
    return world.hub.state == LIVE and any(one.kind not in SILENT_MINDS for one in minds)


async def _writes(world: DashboardContext, agent: str) -> ReplySoFar | None:
    """What the agent's mind has written of an open reply; None: it is asked nothing, or the agent does not answer."""
    try:
        found = await ask(world.bus, control_subject(agent, "draft"), {}, timeout=ANSWER_SECONDS)
    except ConchError:
        return None
    if found.get("phase") not in ("think", "decide") or "written" not in found:
        return None
    return ReplySoFar(int(found["cycle"]), str(found["phase"]), float(found["seconds"]), str(found["written"]))


def _stored(reader: ExperienceReader, agent: str) -> tuple[int, list[Event]]:
    """(the store's position, the newest recorded cycle and the newest act)."""
    place, last = reader.position(), reader.cycles.last_cycle(agent)
    if last is None:
        return place, []
    act = reader.cycles.act(agent, last)
    recorded = reader.cycles.last(agent, 1)
    return place, [*recorded, *([act] if act is not None and act.cycle not in {one.cycle for one in recorded} else [])]
