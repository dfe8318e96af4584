"""Entry point of the engine's process where it serves adapters, `python -m conch.engine.front.process`."""

from __future__ import annotations

import asyncio
import signal
import time

from conch.engine.front.app import EngineFront
from conch.engine.front.listen import serving
from conch.engine.front.servers import LlamaServers
from conch.engine.process import end_when
from conch.processes import ChildProcessLink, messages, run_child
from conch.tasks import background


async def live(child: ChildProcessLink[messages.EngineStart]) -> None:
    """Serve the base, and adapters as they are loaded, until a stop is asked for. Raises ConchError where the base
    cannot be loaded, or its server keeps dying."""
    stopped = asyncio.Event()
    child.on(messages.StopCommand, lambda _: stopped.set())
    child.on(messages.FinishCommand, lambda _: stopped.set())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with background(end_when(stopped, child), name="conch.engine.end"):
        began = time.monotonic()
        async with (
            LlamaServers(child.spec) as servers,
            serving(EngineFront(servers, child.spec.key), child.spec.port) as url,
        ):
            seconds = time.monotonic() - began
            child.report(messages.EngineServed(url=url, seconds=seconds, context=servers.context))
            raise await servers.failed


def main() -> None:
    """Entry point of the process."""
    run_child("engine", messages.EngineStart, live)


if __name__ == "__main__":
    main()
