"""`conch tell | pause | resume | stop`: send a message or a command to the running agent."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import uuid
from typing import TYPE_CHECKING, Literal

from conch.cli.common import CommonOptions, emit, open_bus, say
from conch.cli.options import COMMON, AgentName
from conch.cli.people_facts import agent_named, hand_over, names_in
from conch.cli.waiting import waits_words
from conch.errors import ConchError, NoAnswerError, UsageError
from conch.home import Home
from conch.requests import told_by_person
from conch.text import cut, well_formed
from conch_schemas import Event, MessageReceived, MessageSent, decode, subject_filter

if TYPE_CHECKING:
    from conch.bus import Bus

STOP_SECONDS = 60.0
"""Time that `stop` waits for the run's end; it ends later all the same."""
POLL_SECONDS = 0.05


async def tell(text: str, /, *, wait: float = 0.0, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Tell the agent something; it reads it in its next cycle, or when it runs again. One that sleeps wakes for it.

    With --wait the exit code is 1 where an agent that runs does not answer in time; the message stays with it.

    Parameters
    ----------
    text
        Your words, in quotes.
    wait
        Seconds to wait for the answer of an agent that runs.
    """
    if not text.strip():
        raise UsageError("a message needs a text: conch tell 'what you want to say'")
    key, words = str(uuid.uuid4()), cut(well_formed(text)).text
    made: list[Event] = []

    async def otherwise(_: Bus, home: Home, name: str) -> Event:
        made.append(told_by_person(home, name, MessageReceived, key, text=words))
        return made[0]

    behind = await _end(common) if wait > 0 else 0
    reply = await hand_over(common, agent, "say", {"text": words, "sender": "user", "id": key}, otherwise)
    identity = str(reply.get("id") or made[0].id)
    answer = await _answer(common, identity, behind, wait) if wait > 0 and reply else None
    is_late = answer is None and wait > 0 and bool(reply)
    standing = await _standing(common, agent) if is_late or reply.get("state") == "budget" else None
    waits = "" if standing is None else waits_words(*standing)
    if common.json:
        from conch.views import MessageTold

        said = {} if standing is None or not (is_late or waits) else {"state": standing[1], "why": standing[2]}
        emit(MessageTold(id=identity, running=bool(reply), answer=answer, **said))
    elif answer is not None:
        say(answer)
    elif not is_late:
        say(_told(str(reply.get("state", "")), waits) if reply else "told: the agent reads it when it runs")
    if is_late:
        raise NoAnswerError(f"no answer within {wait:g} s{f': {waits}' if waits else ''}; the message stays with it")


def _told(state: str, waits: str) -> str:
    """That a message is with the agent, whose answer is not waited for; `state`: before it came."""
    if waits:
        return f"told; {waits}"
    return f"told{', and it wakes for it' if state == 'asleep' else ''} (--wait 30 waits for the answer)"


async def _standing(common: CommonOptions, agent: str | None) -> tuple[str, str, str] | None:
    """(agent, its state, why) now; None where it does not answer."""
    name = agent_named(common.existing(), common.settings(), agent)
    try:
        row = await hand_over(common, name, "status", {})
    except ConchError:
        return None
    return name, str(row.get("state", "")), str(row.get("why", ""))


async def _end(common: CommonOptions) -> int:
    """The stream's last sequence."""
    async with open_bus(common.existing(), common.settings()) as bus:
        return (await bus.state()).last


async def _answer(common: CommonOptions, message: str, behind: int, seconds: float) -> str | None:
    """The agent's answer to `message`, or None when there is none in time."""
    async with open_bus(common.existing(), common.settings()) as bus:
        try:
            async with asyncio.timeout(seconds), bus.follow([subject_filter(MessageSent)], after=behind) as reader:
                while True:
                    for delivery in await reader.get():
                        event = decode(delivery.data)
                        if isinstance(event, MessageSent) and event.answers == message:
                            return event.text
        except TimeoutError:
            return None


async def pause(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Let the agent wait before its next cycle; of several all, or the one that is named."""
    await hand_over(common, agent, "pause", {})
    _done(common, "paused")


async def resume(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Let a paused agent go on, or one that was set aside; of several all, or the one that is named.

    The limits of its budget are those of the settings from then on.
    """
    await hand_over(common, agent, "resume", {"budget": common.settings().budget.model_dump()})
    _done(common, "running")


async def stop(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """End the run after the cycle in hand, and wait for its end. Of several agents one that is named ends alone, and so
    does a program that is named; other programs wait for the next run."""
    run = common.existing().running()
    programs = run is not None and not run.has_agent
    others = agent is not None and (programs or len(names_in(common.existing(), common.settings())) > 1)
    if run is not None and programs and agent is None:
        os.kill(run.pid, signal.SIGTERM)
    else:
        await hand_over(common, agent, "stop", {})
    if others:
        _done(common, "stopping")
        return
    _done(common, "stopped" if await asyncio.to_thread(_ended, common.existing()) else "stopping")


def _ended(home: Home) -> bool:
    """Whether the run ended in time. The only sign is the home's lock."""
    until = time.monotonic() + STOP_SECONDS
    while home.running() is not None and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    return home.running() is None


def _done(common: CommonOptions, state: Literal["paused", "running", "stopping", "stopped"]) -> None:
    if common.json:
        from conch.views import State

        emit(State(state=state))
    else:
        say(state)
