"""The agents' process: `python -m conch.cycle.hosting.process`, started by the supervisor."""

from __future__ import annotations

import asyncio
import signal

from conch.bus import feeding
from conch.bus.jetstream import JetStreamBus
from conch.cycle.hosting.factory import Household
from conch.cycle.hosting.host import Host
from conch.cycle.hosting.runner import said
from conch.processes.child import BUS_SECONDS, Child, run_child


async def live(child: Child) -> None:
    """The agents, from their recovery to the last fact. Raises ConchError when they cannot begin."""
    async with (
        JetStreamBus(child.access, name="conch-agents", strict=child.strict, connect_timeout=BUS_SECONDS) as bus,
        feeding(bus) as feed,
        Household(child, feed) as household,
    ):
        host = Host(feed, household.hosted, household.resting)

        def stop() -> None:
            for one in household.hosted:
                one.control.stop()

        child.on("stop", lambda _: stop())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        await host.run()
        for one in household.hosted:
            if one.error is not None:
                child.report(agent=one.name, failed=said(one.error), code=getattr(one.error, "exit_code", 1))


def main() -> None:
    """Entry point of the process."""
    run_child("agent", live)


if __name__ == "__main__":
    main()
