"""`agent`: the acts of a program of the user's own on the bus, as an agent's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from types import TracebackType

from conch.bus import Bus, shared_subscription
from conch.config import Settings, load
from conch.cycle.control import Control
from conch.cycle.hosting.host import AgentHost
from conch.cycle.hosting.runner import AgentRunner, RunStart
from conch.cycle.schedule import Schedule
from conch.cycle.state.count import CycleCount
from conch.cycle.state.recover import RecoveredAgent, RecoveryStart
from conch.errors import ContractError
from conch.home import Home
from conch.library.blocking import BlockingAgent, BlockingSession
from conch.library.buses import connect
from conch.library.joining import identity_in, identity_on, refuse_name, refuse_second, weigh
from conch.library.program import ProgramCore, ProgramOrder, ProgramPolicy
from conch.library.program_agent import ProgramAgent
from conch.library.steps import ProgramTools, Tools, refuse_other_than_text
from conch.log import get_logger
from conch.tasks import OwnedTasks, background
from conch.text import well_formed

log = get_logger(__name__)


def agent(
    name: str,
    url: str | None = None,
    *,
    bus: Bus | None = None,
    home: Path | str | None = None,
    token: str | None = None,
    credentials: str | None = None,
    tools: Tools = (),
    model: str = "",
    system_prompt: str = "",
) -> AgentSession:
    """Act as the agent `name` on a bus: a program of any kind says what it thinks, decides and does, and every rule,
    judge, need, mark, store and page of a run works on it as on an agent of Conch's own.

    The bus is found as by `conch.connect`: `url` (with `token`, `credentials`), else the one of `home`'s run; or `bus`,
    one that is entered already. `tools`: names of the program's tools, or by name what each may change (`read`,
    `workspace`, `world`). `model`, `system_prompt`: of the model that the program asks, for `policy.set`.

    Entered with `async with` it gives a `ProgramAgent`; with `with`, in a program without asyncio, a `BlockingAgent`.
    The agent's uuid is in the home; without one, in its checkpoint on the bus. Killed anywhere and entered again, it
    goes on with the next cycle: no number is left out, what was decided and has no outcome becomes `unknown`, nothing
    is published twice.

    Entering raises FencedError where another program, or a run, acts under this name on the bus; BusUnreachableError
    where there is no bus; BusError where the stream's agent of this name is another home's; HomeError; ContractError
    for names that cannot be. Left with an error, it ends at once; what it left open is closed by the next one.

    ```python
    import conch

    async with conch.MemoryBus() as bus, conch.running(bus, mind=["DO_NOTHING: rest"]):  # or: conch run --without agent
        async with conch.agent("mine", bus=bus) as agent:
            async with agent.cycle() as cycle:
                await cycle.thought("I should look at the weather.")
                await cycle.decided(tool="search", args={"query": "weather"})
                await cycle.taken("success", output="sunny")
                print(await cycle.reward(timeout=5))
    ```
    """
    refuse_name(name)
    refuse_other_than_text(model=model, system_prompt=system_prompt)
    model, system_prompt = well_formed(model), well_formed(system_prompt)
    order = ProgramOrder(name, ProgramPolicy(model, system_prompt), ProgramTools().with_tools(tools))
    place = Home.at(home) if home is not None or (url is None and bus is None) else None
    reached = nullcontext(bus) if bus is not None else connect(url, home=home, token=token, credentials=credentials)
    return AgentSession(_acting(order, place, reached), has_own_bus=bus is None)


class AgentSession:
    """A program's agent before it is entered, once; made by `agent`."""

    def __init__(self, acting: AbstractAsyncContextManager[ProgramAgent], *, has_own_bus: bool) -> None:
        self._acting, self._has_own_bus, self._is_entered = acting, has_own_bus, False
        self._blocking: BlockingSession | None = None

    def _enter_once(self) -> None:
        if self._is_entered:
            raise ContractError("it was entered before: call conch.agent(...) again for another time")
        self._is_entered = True

    async def __aenter__(self) -> ProgramAgent:
        self._enter_once()
        agent = await self._acting.__aenter__()
        agent.session = self  # entered without `async with`, in a notebook, it is not to end as garbage
        return agent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._acting.__aexit__(kind, error, trace)

    def __enter__(self) -> BlockingAgent:
        if not self._has_own_bus:
            raise ContractError("bus=... belongs to an event loop: with `with`, name an address or a home instead")
        self._enter_once()
        self._blocking = BlockingSession(self._acting)
        return self._blocking.enter()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        assert self._blocking is not None
        self._blocking.leave(in_order=error is None)


@asynccontextmanager
async def _acting(
    order: ProgramOrder, home: Home | None, reached: AbstractAsyncContextManager[Bus]
) -> AsyncIterator[ProgramAgent]:
    """`home`: keeps the agent's uuid; None: the bus does."""
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(reached)
        await refuse_second(bus, order.name)
        settings, born = Settings(), (await bus.state()).last
        count: CycleCount | None = None
        if home is not None:
            settings = load(None, home, {})
            identity = await identity_in(bus, home, order.name)
            count = CycleCount(home.agent_dir(order.name))
            stack.callback(count.close)
        else:
            identity = await identity_on(bus, order.name)
        await weigh(bus, identity, settings)
        began = (await bus.state()).last
        shared_events = await stack.enter_async_context(shared_subscription(bus))
        tasks = await stack.enter_async_context(OwnedTasks())
        control = Control(lambda state, why: _log_state(order.name, state, why))
        opened: asyncio.Future[ProgramCore] = asyncio.get_running_loop().create_future()

        def make(at: RecoveredAgent, begun: RunStart) -> ProgramCore:
            return ProgramCore(
                order, identity.agentuid, settings.needs, shared_events, at, control, count, tasks, opened
            )

        origin = RecoveryStart(identity.agentuid, identity.beyond, born if identity.fresh else None)
        runner = AgentRunner(order.name, origin, control, Schedule(0.0, None), make, _nothing)
        running = AgentHost(shared_events, [runner]).run()
        hosting = await stack.enter_async_context(background(running, name="conch.program"))
        await asyncio.wait((opened, hosting), return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            hosting.result()
        yield ProgramAgent(opened.result(), hosting, bus, began)
        control.stop()
        await hosting


def _log_state(agent: str, state: str, why: str) -> None:
    if why:
        log.warning("agent.waits", agent=agent, state=state, why=why)


async def _nothing() -> None:
    """A program has no workspace that Conch fills."""
