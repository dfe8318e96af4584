"""`conch tell | pause | resume | stop`: what a person says to the agent."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING

from conch.cli.common import Common, emit, say
from conch.cli.facts import hand_over, told_by_person
from conch.cli.options import COMMON, AgentName
from conch.errors import UsageError
from conch.home import Home
from conch.text import cut, well_formed
from conch_schemas import Event, MessageReceived

if TYPE_CHECKING:
    from conch.bus import Bus

STOP_SECONDS = 60.0
"""Time that `stop` waits for the run's end; it ends later all the same."""
POLL_SECONDS = 0.05


async def tell(text: str, /, *, agent: AgentName = None, common: Common = COMMON) -> None:
    """Tell the agent something; it reads it in its next cycle, or when it runs again.

    Parameters
    ----------
    text
        Your words, in quotes.
    """
    if not text.strip():
        raise UsageError("a message needs a text: conch tell 'what you want to say'")
    key, words = str(uuid.uuid4()), cut(well_formed(text)).text
    made: list[Event] = []

    async def otherwise(_: Bus, home: Home, name: str) -> Event:
        made.append(told_by_person(home, name, MessageReceived, key, text=words))
        return made[0]

    reply = await hand_over(common, agent, "say", {"text": words, "sender": "user", "id": key}, otherwise)
    identity = str(reply.get("id") or made[0].id)
    if common.json:
        emit({"schema": "conch.v1.told", "id": identity, "running": bool(reply)})
    else:
        say("told" if reply else "told: the agent reads it when it runs")


async def pause(*, agent: AgentName = None, common: Common = COMMON) -> None:
    """Let the agent wait before its next cycle."""
    await hand_over(common, agent, "pause", {})
    _done(common, "paused")


async def resume(*, agent: AgentName = None, common: Common = COMMON) -> None:
    """Let a paused agent go on."""
    await hand_over(common, agent, "resume", {})
    _done(common, "running")


async def stop(*, agent: AgentName = None, common: Common = COMMON) -> None:
    """End the run after the cycle in hand, and wait for its end."""
    await hand_over(common, agent, "stop", {})
    _done(common, "stopped" if await asyncio.to_thread(_ended, common.existing()) else "stopping")


def _ended(home: Home) -> bool:
    """Whether the run's end came in time. Nobody tells of it but the home's lock."""
    until = time.monotonic() + STOP_SECONDS
    while home.running() is not None and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    return home.running() is None


def _done(common: Common, state: str) -> None:
    if common.json:
        emit({"schema": "conch.v1.state", "state": state})
    else:
        say(state)
