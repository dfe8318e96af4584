"""The agent's process: `python -m conch.cycle.process`, started by the supervisor."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import structlog

from conch.bus import Bus, Reader
from conch.bus.jetstream import JetStreamBus
from conch.cycle.agent import Agent
from conch.cycle.body import Body
from conch.cycle.control import Control, StoppedError
from conch.cycle.recover import Recovered, lived_by, recover
from conch.cycle.requests import Requests
from conch.home import Home
from conch.minds import ScriptEnded, make_mind
from conch.process import Child, run_child
from conch.tools import BUILTIN_TOOLS, Notes, Sandbox, Toolbox
from conch_schemas import control_subject

log = structlog.get_logger(__name__)


async def live(child: Child) -> None:
    """One agent, from its recovery to its last fact. Raises ConchError when it cannot begin."""
    settings, home = child.settings, Home(child.home)
    agentuid = home.agentuid(settings.agent)
    own = home.agent_dir(settings.agent)
    control = Control(lambda state, why: child.report(state=state, why=why), batch=child.spec["cycles"] is not None)
    child.on("stop", control.stop)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, control.stop)
    async with JetStreamBus(child.access, name=f"conch-{settings.agent}", strict=child.strict) as bus:
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
            await go_on(Agent(body, recovered, control), bus, recovered, begun["until"])
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


async def go_on(agent: Agent, bus: Bus, recovered: Recovered, until: int | None) -> None:
    """The cycle, the reading of facts and the answering of requests, side by side; the cycle's end ends all.

    Raises what any of them does, as itself; the memory is written down at an end in order alone.
    """
    async with (
        bus.consume(f"agent-{agent.name}", lived_by(agent.name), after=recovered.read) as reader,
        bus.serve(control_subject(agent.name, "*"), Requests(agent).answer),
    ):
        agent.control.running()
        await beside(_live(agent, until), _read(agent, reader, recovered))
        await agent.save()
        await reader.ack(recovered.written)


async def beside(work: Coroutine[Any, Any, None], endless: Coroutine[Any, Any, None]) -> None:
    """Until `work` is done, or the endless task breaks: then its error comes out, as itself. Leaves none behind."""
    working = asyncio.create_task(work, name="conch.agent.cycle")
    reading = asyncio.create_task(endless, name="conch.agent.reading")
    try:
        done, _ = await asyncio.wait({working, reading}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        working.cancel()
        reading.cancel()
        await asyncio.gather(working, reading, return_exceptions=True)


async def _live(agent: Agent, until: int | None) -> None:
    try:
        await agent.run(until)
    except ScriptEnded:
        log.info("agent.script_ended")
    except StoppedError:
        log.info("agent.stopped_while_waiting")


async def _read(agent: Agent, reader: Reader, recovered: Recovered) -> None:
    while True:
        for delivery in await reader.get():
            agent.hear(delivery)
        await reader.ack(recovered.written)


def main() -> None:
    """Entry point of the process."""
    run_child("agent", live)


if __name__ == "__main__":
    main()
