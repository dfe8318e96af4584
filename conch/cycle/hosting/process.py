"""Entry point of an agent process, `python -m conch.cycle.hosting.process`, started by the supervisor."""

from __future__ import annotations

import asyncio
import signal

from conch.bus import shared_subscription
from conch.bus.jetstream import JetStreamBus
from conch.cycle.hosting.factory import AgentFactory
from conch.cycle.hosting.host import AgentHost, OtherProcesses
from conch.cycle.hosting.runner import said
from conch.processes import BUS_SECONDS, ChildProcessLink, messages, run_child


async def live(child: ChildProcessLink[messages.AgentsStart]) -> None:
    """The agents, from their recovery to the last fact. Raises ConchError when they cannot begin."""
    async with (
        JetStreamBus(child.access, name="conch-agents", strict=child.strict, connect_timeout=BUS_SECONDS) as bus,
        shared_subscription(bus) as shared_events,
        AgentFactory(child, shared_events) as agent_factory,
    ):
        stopped = asyncio.Event()

        def stop() -> None:
            stopped.set()
            for one in agent_factory.agent_runner:
                one.control.stop()

        async def ended() -> None:
            child.report(messages.AgentsEnded())
            await stopped.wait()

        def set_aside(error: Exception | None) -> None:
            why, code = ("", 1) if error is None else (said(error), getattr(error, "exit_code", 1))
            child.report(messages.AgentsSetAside(error=why, exit_code=code))

        others = child.spec.others
        beside = OtherProcesses(others, set_aside=set_aside, ended=ended) if others else None
        host = AgentHost(shared_events, agent_factory.agent_runner, agent_factory.dormant_agents, beside)

        child.on(messages.StopCommand, lambda _: stop())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        await host.run()
        for one in agent_factory.agent_runner:
            if one.error is not None:
                code = getattr(one.error, "exit_code", 1)
                child.report(messages.AgentFailed(agent=one.name, error=said(one.error), exit_code=code))


def main() -> None:
    """Entry point of the process."""
    run_child("agent", messages.AgentsStart, live)


if __name__ == "__main__":
    main()
