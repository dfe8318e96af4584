"""`Run` and `AgentRun`, which `consuming` and `running` yield: the events of a run, and waiting for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from conch.bus import Bus
from conch.consumer import HostedConsumer, quiet
from conch.library.subscription import Subscription
from conch_schemas import Event

E = TypeVar("E", bound=Event)


class Run:
    """Consumers that run now, on `bus`; made by `consuming`.

    ```python
    import conch
    from conch.testing import make_action_taken
    from conch_schemas import ActionTaken


    @conch.consumer(ActionTaken)
    def nothing(action: ActionTaken) -> None:
        pass


    async with conch.MemoryBus() as bus, conch.consuming(bus, nothing) as run:
        run: conch.Run
        await conch.publish(run.bus, make_action_taken())
        async for act in run.events(ActionTaken):
            assert act.cycle == 1
            break
    ```
    """

    def __init__(self, bus: Bus, began: int, scoring: Sequence[HostedConsumer]) -> None:
        self.bus = bus
        """The bus that it runs on."""
        self._began, self._scoring = began, scoring

    @overload
    def events(self) -> Subscription[Event]: ...

    @overload
    def events(self, *kinds: type[E]) -> Subscription[E]: ...

    def events(self, *kinds: type[Event]) -> Subscription[Any]:
        """The events of `kinds` (none: of every kind) since the run began, typed, in stream order, each once."""
        return Subscription(self.bus, kinds, after=self._began)

    async def handled(self) -> None:
        """Wait until every consumer has handled everything on the stream, and what followed from it is published."""
        await quiet(self.bus, self._scoring)


class AgentRun(Run):
    """The agent named `agent` of the home `home`, which runs now on `bus` with its consumers; made by `running`.

    ```python
    import conch
    from conch_schemas import ActionTaken

    async with conch.MemoryBus() as bus, conch.running(bus, mind=["DO_NOTHING: rest"]) as run:
        run: conch.AgentRun
        acts = [act async for act in run.events(ActionTaken)]  # ends with the run
        assert [act.agent for act in acts] == [run.agent]
        with conch.open(run.home) as home:
            assert [row["total"] is not None for row in home.cycles()] == [True]
    ```
    """

    def __init__(self, bus: Bus, began: int, scoring: Sequence[HostedConsumer], agent: str, home: Path) -> None:
        super().__init__(bus, began, scoring)
        self.agent = agent
        """The agent's name."""
        self.home = home
        """The home's directory, for `conch.open`; of a run without one, it is removed when the run is left."""
        self._over = asyncio.Event()

    @overload
    def events(self) -> Subscription[Event]: ...

    @overload
    def events(self, *kinds: type[E]) -> Subscription[E]: ...

    def events(self, *kinds: type[Event]) -> Subscription[Any]:
        """The events of `kinds` (none: of every kind) since the run began, typed, in stream order, each once.

        The iteration ends once the run is finished and every event was given out.
        """
        return Subscription(self.bus, kinds, after=self._began, over=self._over)

    async def finished(self) -> None:
        """Wait until the agent has ended by itself and every consumer has handled everything on the stream.

        An agent ends after its `cycles`, or with its script; without an end this waits until it is cancelled.
        """
        await self._over.wait()

    async def follow(self, acting: asyncio.Task[None]) -> None:
        """Wait for the agent's task, then for the consumers; then the run is finished."""
        await asyncio.wait([acting])
        await self.handled()
        self._over.set()
