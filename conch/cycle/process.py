"""The agent's process: `python -m conch.cycle.process`, started by the supervisor."""

from __future__ import annotations

import asyncio
import json
import signal
import uuid
from pathlib import Path
from typing import Any

import structlog

from conch.bus import Bus, Reader
from conch.bus.jetstream import JetStreamBus
from conch.cycle.agent import Agent, Body
from conch.cycle.control import Control, StoppedError
from conch.cycle.recover import Recovered, recover
from conch.errors import ConchError
from conch.home import Home
from conch.minds import ScriptEnded, make_mind
from conch.process import Child, run_child
from conch.tools import BUILTIN_TOOLS, Notes, Sandbox, Toolbox
from conch_schemas import (
    ContractViolationError,
    ExperienceRecorded,
    Goal,
    GoalDropped,
    NeedsChanged,
    control_subject,
    decode,
    subject_filter,
)

log = structlog.get_logger(__name__)

_READ = (NeedsChanged, ExperienceRecorded)
"""Others' facts that the agent lives by."""


async def live(child: Child) -> None:
    """One agent, from its recovery to its last fact. Raises ConchError when it cannot begin."""
    settings, home = child.settings, Home(child.home)
    agentuid = home.agentuid(settings.agent)
    own = home.agent_dir(settings.agent)
    control = Control(lambda state, why: child.report(state=state, why=why), batch=child.spec["cycles"] is not None)
    child.on("stop", control.stop)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, control.stop)
    async with JetStreamBus(child.bus_url, token=child.bus_token, name=f"conch-{settings.agent}") as bus:
        recovered = await recover(bus, settings.agent, agentuid, beyond=child.spec["beyond"])
        begun = child.spec["begun"] or _begin(child, recovered)
        decided = recovered.memory.decisions - begun["decisions"]
        mind = make_mind(settings.mind, seed=settings.seed, memory=own / "reflex.npz", decided=decided)
        notes = Notes(own / "notes.db")
        body = Body(
            bus=bus,
            mind=mind,
            toolbox=Toolbox(BUILTIN_TOOLS),
            sandbox=Sandbox(settings.tools),
            notes=notes,
            workspace=Path(child.spec["workspace"]),
            settings=settings,
            agentuid=agentuid,
        )
        try:
            await _run(Agent(body, recovered, control), bus, recovered, begun["until"])
        finally:
            await mind.close()
            notes.close()


def _begin(child: Child, recovered: Recovered) -> dict[str, Any]:
    """Where this run began, said to the supervisor: an agent that it starts again goes on to the same end."""
    cycles = child.spec["cycles"]
    until = recovered.memory.next_cycle + cycles if cycles is not None else None
    begun = {"until": until, "decisions": recovered.memory.decisions}
    child.report(**begun)
    return begun


async def _run(agent: Agent, bus: Bus, recovered: Recovered, until: int | None) -> None:
    """The cycle, the reading of others' facts and the answering of requests, side by side; the cycle's end ends all."""
    filters = [subject_filter(kind, agent.name) for kind in _READ]
    async with (
        bus.consume(f"agent-{agent.name}", filters, after=recovered.read) as reader,
        bus.serve(control_subject(agent.name, "*"), Requests(agent).answer),
        asyncio.TaskGroup() as group,
    ):
        reading = group.create_task(_read(agent, reader, recovered), name="conch.agent.reading")
        try:
            agent.control.running()
            await agent.run(until)
        except ScriptEnded:
            log.info("agent.script_ended")
        except StoppedError:
            log.info("agent.stopped_while_waiting")
        finally:
            reading.cancel()
        await agent.save()
        await reader.ack(recovered.written)


async def _read(agent: Agent, reader: Reader, recovered: Recovered) -> None:
    while True:
        for delivery in await reader.get():
            try:
                event = decode(delivery.data)
            except ContractViolationError:
                continue  # its consumers make dead letters of it
            agent.notice(event, delivery.seq)
        await reader.ack(recovered.written)


class Requests:
    """What people ask of a running agent: JSON in, JSON out; an error is a reply too."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def answer(self, subject: str, data: bytes) -> bytes:
        """The reply to a request on `conch.ctl.<agent>.<verb>`."""
        verb = subject.rsplit(".", 1)[-1]
        try:
            body = json.loads(data or b"{}")
            handler = getattr(self, f"_{verb}", None)
            if handler is None or verb == "agent" or not isinstance(body, dict):
                return json.dumps({"error": f"there is no request {verb!r}"}).encode()
            reply = await handler(body)
        except (ConchError, ValueError, LookupError, TypeError) as error:
            return json.dumps({"error": " ".join(str(error).split())[:500]}).encode()
        return json.dumps({"ok": True} | reply).encode()

    async def _pause(self, _: dict[str, Any]) -> dict[str, Any]:
        self._agent.control.pause()
        return {}

    async def _resume(self, _: dict[str, Any]) -> dict[str, Any]:
        self._agent.control.resume()
        return {}

    async def _stop(self, _: dict[str, Any]) -> dict[str, Any]:
        self._agent.control.stop()
        return {}

    async def _say(self, body: dict[str, Any]) -> dict[str, Any]:
        text = body["text"]
        if not isinstance(text, str) or not text.strip():
            raise ValueError("a message needs a text")
        key = str(body.get("id") or uuid.uuid4())
        return {"id": await self._agent.tell(text, str(body.get("sender", "user")), key)}

    async def _goal(self, body: dict[str, Any]) -> dict[str, Any]:
        if "drop" in body:
            goal = str(body["drop"])
            if goal not in self._agent.memory.goals:
                raise LookupError(f"there is no active goal {goal}")
            await self._agent.publish_outside(GoalDropped, goal, goal=goal, why=str(body.get("why", "")))
            return {"goal": goal}
        added = body["add"]
        new = Goal.model_validate({"id": str(uuid.uuid4())[:8]} | {k: v for k, v in added.items() if v is not None})
        if new.id in self._agent.memory.known_goals:
            raise ValueError(f"a goal {new.id} was set before")
        await self._agent.set_goal(new, by="user")
        return {"goal": new.id}

    async def _status(self, _: dict[str, Any]) -> dict[str, Any]:
        return self._agent.status()


def main() -> None:
    """Entry point of the process."""
    run_child("agent", live)


if __name__ == "__main__":
    main()
