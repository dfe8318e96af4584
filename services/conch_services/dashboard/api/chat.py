"""Conversations over the API: a turn as server-sent events of the AG-UI protocol, and ratings of answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel
from sse_starlette import EventSourceResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response

from conch.errors import ConchError
from conch.requests import APPROVAL, ChatSession, publish_rating, score_range
from conch.text import cut, safe_text, well_formed
from conch.views import RatingShown, rating_shown
from conch_schemas import HUMAN_SCORER, SESSION_PATTERN
from conch_services.dashboard.api.asked import AgentPath, CycleNumber, TheWorld, document, the_agent
from conch_services.dashboard.api.history import unknown
from conch_services.dashboard.api.problems import responses
from conch_services.dashboard.security.refusals import problem
from conch_services.dashboard.stream.ag_ui import AgUiRun
from conch_services.dashboard.world import DashboardContext

router = APIRouter()

MOST_TURNS = 20
"""Turns that are open at once: each looks at its agent five times a second."""
AGAIN_SECONDS = "5"
"""Retry-After for a turn beyond that, in seconds."""
PING_SECONDS = 15
STUCK_SECONDS = 30.0
"""A front end that takes nothing for so long is disconnected."""
LONGEST_TEXT = 32_000
"""Most characters of a message, and of a corrected answer."""

Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class AgUiMessage(BaseModel):
    """A message of the AG-UI protocol."""

    id: Id
    role: Annotated[str, StringConstraints(max_length=40)]
    content: Any = None
    """A text, or parts of which those of type `text` are read."""

    model_config = ConfigDict(extra="ignore")


class AgUiInput(BaseModel):
    """`RunAgentInput` of the AG-UI protocol. The last message is the person's; the agent knows the earlier ones."""

    thread_id: Annotated[str, StringConstraints(pattern=SESSION_PATTERN)]
    """The session."""
    run_id: Id
    messages: Annotated[list[AgUiMessage], Field(min_length=1, max_length=1000)]

    # The protocol's other fields (tools, state, context) say nothing to an agent that has its own.
    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)


class AnswerRating(BaseModel):
    """A person's rating of the answer that a cycle gave."""

    cycle: CycleNumber
    rating: Literal["satisfied", "unsatisfied", "corrected", "stop"]
    text: Annotated[str, StringConstraints(max_length=LONGEST_TEXT)] = ""
    """The reason, or the corrected answer."""

    model_config = ConfigDict(extra="forbid")


@router.post("/agents/{agent}/chat", response_class=EventSourceResponse, responses=responses(404, 409))
async def chat(world: TheWorld, agent: AgentPath, asked: AgUiInput) -> Response:
    """Send a message and follow its answer: server-sent events of the AG-UI protocol, from RUN_STARTED to RUN_FINISHED
    or RUN_ERROR. The same thread and message id again is the same message: it is answered once."""
    name = await the_agent(world, agent)
    run = world.home.running()
    if run is None or (name not in run.agents and run.bus.embedded):
        raise HTTPException(409, f"The agent {name} does not run: conch run starts it.")
    text = _text_of(asked.messages[-1])
    if world.turns >= MOST_TURNS:
        return problem(503, "Too many turns are open: try again soon.", {"Retry-After": AGAIN_SECONDS})
    session = ChatSession(world.bus, name, asked.thread_id, lambda: world.home.running() is not None)
    events = _events(world, session, asked, text)
    return EventSourceResponse(events, ping=PING_SECONDS, send_timeout=STUCK_SECONDS)


def _text_of(message: AgUiMessage) -> str:
    """The words of a person's message. Answers 422 for another one."""
    parts = message.content if isinstance(message.content, list) else [{"type": "text", "text": message.content}]
    found = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    texts = [text for text in found if isinstance(text, str)]
    if message.role != "user" or len(texts) != len(parts):
        raise HTTPException(422, "The last message must be a person's (role user), of text alone.")
    text = cut(well_formed("\n".join(texts))).text
    if not text.strip() or len(text) > LONGEST_TEXT:
        raise HTTPException(422, f"A message has 1 to {LONGEST_TEXT} characters.")
    return text


async def _events(world: DashboardContext, session: ChatSession, asked: AgUiInput, text: str) -> AsyncIterator[bytes]:
    run = AgUiRun(asked.thread_id, asked.run_id)
    world.turns += 1
    try:
        yield _message(run.begin())
        async for step in session.turn(text, f"{asked.thread_id}/{asked.messages[-1].id}"):
            for event in run.take(step):
                yield _message(event)
        for event in run.end():
            yield _message(event)
    except ConchError as error:
        for event in run.fail(safe_text(str(error), one_line=True)):
            yield _message(event)
    finally:
        world.turns -= 1


def _message(event: Any) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(event)


@router.post("/agents/{agent}/chat/rating", response_model=RatingShown, responses=responses(404, 409))
async def rate(world: TheWorld, agent: AgentPath, said: AnswerRating) -> Response:
    """Rate the answer that a cycle gave: praise and blame are your own score `approval` of it too, a correction is kept
    with it. The same rating again is once."""
    name = await the_agent(world, agent)
    act, whole = await world.read(
        lambda reader: (reader.cycles.act(name, said.cycle), reader.cycles.get(name, said.cycle))
    )
    if act is None:
        raise unknown(name, said.cycle)
    versions = await world.read(lambda reader: reader.backfill.versions(str(act.action_id), HUMAN_SCORER, APPROVAL))
    limits = score_range(APPROVAL, world.settings)
    fact, _ = await publish_rating(world.bus, act, said.rating, said.text, limits, versions, whole)
    return document(rating_shown(fact))
