"""`/chat`: conversations with an agent, each answer with its reward and its mark."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.experience import ExperienceReader
from conch_schemas import SESSION_PATTERN, AnswerRated, MessageReceived, MessageSent
from conch_services.dashboard.asking import QueryResult, asked
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.pages.approval import approvals_of
from conch_services.dashboard.ranges.window import CycleWindow, range_asked
from conch_services.dashboard.story.verdicts import talk_verdict
from conch_services.dashboard.stream.conversation import LastFacts, last_facts
from conch_services.dashboard.stream.sessions import ALONE, SessionTurn, sessions_in
from conch_services.dashboard.world import DashboardContext

MOST_FACTS = 600
"""Messages, answers and ratings that are read, the last ones."""
MOST_SESSIONS = 30
"""Sessions that are listed, the last ones."""
MOST_TURNS = 50
"""Turns of a session that are shown, the last ones."""


@dataclass(frozen=True)
class JudgedAnswer:
    """What is known of an answer."""

    total: float | None = None
    """Its reward; None: not known yet."""
    complete: bool = True
    mark: int | None = None
    """The sequence of its mark; None: there is none yet."""


async def chat(request: Request) -> Response:
    """The sessions, and the turns of the one of `?session=`; without it a new one. `?alone=1`: the messages that belong
    to no session. Of the range of the address those turns that were answered in it."""
    world: DashboardContext = request.app.state.world
    agent = await agent_of(request)
    found: QueryResult[LastFacts] = await asked(_said(world, agent))
    looked: QueryResult[CycleWindow | None] = await asked(range_asked(request, agent))
    sessions = _within(sessions_in((found.found or LastFacts()).events), looked.found)
    named = request.query_params.get("session", "")
    session = named if re.fullmatch(SESSION_PATTERN, named) else secrets.token_hex(4)
    is_alone = "alone" in request.query_params
    turns = sessions.get(ALONE if is_alone else session, [])[-MOST_TURNS:]
    judged = await asked(world.read(lambda reader: [_judged(reader, agent, turn) for turn in turns]))
    answers = [turn.cycle for some in sessions.values() for turn in some if turn.cycle is not None]
    totals = await asked(world.read(lambda reader: _totals(reader, agent, sorted(answers)[-MOST_TURNS:])))
    return await page(
        request,
        "chat.html",
        {
            "sessions": [(id, turns[0].text, len(turns)) for id, turns in reversed(sessions.items())][:MOST_SESSIONS],
            "session": session,
            "is_alone": is_alone,
            "verdict_said": talk_verdict(agent, sessions, totals.found or ()),
            "turns": list(zip(turns, judged.found or [JudgedAnswer()] * len(turns), strict=True)),
            "why": found.why,
            "window": looked.found,
            "approvals": await approvals_of(world, agent),
            "after": world.hub.last,
        },
    )


def _within(sessions: dict[str, list[SessionTurn]], window: CycleWindow | None) -> dict[str, list[SessionTurn]]:
    """The sessions with the turns that were answered within the range; those that have none are left out."""
    if window is None:
        return sessions
    some = {
        id: [turn for turn in turns if turn.cycle is not None and window.has(turn.cycle)]
        for id, turns in sessions.items()
    }
    return {id: turns for id, turns in some.items() if turns}


async def _said(world: DashboardContext, agent: str) -> LastFacts:
    return await last_facts(world.bus, agent, (MessageReceived, MessageSent, AnswerRated), MOST_FACTS)


def _totals(reader: ExperienceReader, agent: str, cycles: Sequence[int]) -> list[float]:
    """The rewards of these cycles that are known."""
    return [found.total for cycle in cycles if (found := reader.cycles.get(agent, cycle)) is not None]


def _judged(reader: ExperienceReader, agent: str, turn: SessionTurn) -> JudgedAnswer:
    if turn.cycle is None or turn.action is None:
        return JudgedAnswer()
    whole = reader.cycles.get(agent, turn.cycle)
    marks: Sequence[int] = [
        mark.sequence for mark in reader.chain.marks_of(agent, turn.action) if mark.domain == "action"
    ]
    mark = marks[0] if marks else None
    return JudgedAnswer(mark=mark) if whole is None else JudgedAnswer(whole.total, whole.complete, mark)


ROUTES = [Route("/chat", chat)]
