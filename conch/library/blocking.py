"""`BlockingAgent` and `BlockingCycle`: a program's agent for programs without asyncio, on a loop in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Self, TypeVar

from conch.errors import ContractError
from conch.library.program_agent import ProgramAgent, ProgramCycle
from conch.library.steps import Tokens, Tools
from conch_schemas import ExperienceRecorded, OutcomeStatus

T = TypeVar("T")


class _LeftError(Exception):
    """The program left its agent with an error: nothing is finished."""


class BlockingSession:
    """The thread and the event loop that one agent lives in, from `enter` to `leave`."""

    def __init__(self, acting: AbstractAsyncContextManager[ProgramAgent]) -> None:
        self._acting = acting
        self._loop = asyncio.new_event_loop()
        self._entered: Future[ProgramAgent] = Future()
        self._leaving = asyncio.Event()
        self._in_order = True
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="conch.agent", daemon=True)

    def enter(self) -> BlockingAgent:
        """Start the thread; the entered agent. Raises what entering it raises."""
        self._thread.start()
        try:
            return BlockingAgent(self._entered.result(), self)
        except BaseException:
            self.leave(in_order=False)
            raise

    def leave(self, *, in_order: bool) -> None:
        """End the agent and the thread. Raises what leaving it raises, where that is in order."""
        self._in_order = in_order
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._leaving.set)
        self._thread.join()
        if in_order and self._error is not None:
            raise self._error

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work` on the loop. Interrupted, the work is cancelled. Raises ContractError once the agent was
        left."""
        if self._leaving.is_set() or not self._thread.is_alive():
            work.close()
            raise ContractError("the agent was left: its calls belong inside of `with conch.agent(...)`")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._live())
            except _LeftError:
                pass
            except BaseException as error:  # to the thread that entered
                if self._entered.done():
                    self._error = error
                else:
                    self._entered.set_exception(error)

    async def _live(self) -> None:
        async with self._acting as agent:
            self._entered.set_result(agent)
            await self._leaving.wait()
            if not self._in_order:
                raise _LeftError


class BlockingAgent:
    """A `ProgramAgent` whose calls block; made by `with conch.agent(...)`. For one thread of the program.

    ```python
    import asyncio

    import conch


    def program(url: str, token: str) -> int:
        with conch.agent("mine", url, token=token, tools=["search"]) as agent:
            agent: conch.BlockingAgent
            with agent.cycle() as cycle:
                cycle.thought("I should look at the weather.")
                cycle.decided(tool="search", args={"query": "weather"})
                cycle.taken("success", output="sunny")
            return cycle.number


    async with conch.local_bus("server") as bus:  # a server, for this example
        assert await asyncio.to_thread(program, bus.url, bus.token) == 0
    ```
    """

    def __init__(self, agent: ProgramAgent, session: BlockingSession) -> None:
        self.name = agent.name
        """The agent's name."""
        self._agent, self._session = agent, session

    def tools(self, tools: Tools) -> None:
        """Declare tools that the program has; see `ProgramAgent.tools`."""
        self._agent.tools(tools)

    def cycle(self) -> BlockingCycle:
        """The next cycle, to be entered; see `ProgramAgent.cycle`."""
        return BlockingCycle(self._agent.cycle(), self._session)

    def rewards(self) -> Iterator[ExperienceRecorded]:
        """The recorded experiences of this agent since it was entered; each step waits for the next one."""
        events = aiter(self._agent.rewards())
        while True:
            yield self._session.call(_next(events))


async def _next(events: Any) -> ExperienceRecorded:
    found: ExperienceRecorded = await anext(events)
    return found


class BlockingCycle:
    """A `ProgramCycle` whose calls block; made by `BlockingAgent.cycle`.

    ```python
    import asyncio

    import conch


    def program(url: str, token: str) -> None:
        with conch.agent("mine", url, token=token) as agent, agent.cycle() as cycle:
            cycle: conch.BlockingCycle
            cycle.thought("")
            cycle.decided("DO_NOTHING", text="nothing is due")


    async with conch.local_bus("server") as bus:  # a server, for this example
        await asyncio.to_thread(program, bus.url, bus.token)
    ```
    """

    def __init__(self, cycle: ProgramCycle, session: BlockingSession) -> None:
        self._cycle, self._session = cycle, session

    def __enter__(self) -> Self:
        self._session.call(self._cycle.__aenter__())
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._session.call(self._cycle.__aexit__(kind, error, trace))

    @property
    def number(self) -> int:
        """The cycle's number."""
        return self._cycle.number

    def thought(self, text: str, *, usage: Tokens = None, ms: float | None = None) -> None:
        """What the program thinks; see `ProgramCycle.thought`."""
        self._session.call(self._cycle.thought(text, usage=usage, ms=ms))

    def decided(
        self,
        what: str = "",
        /,
        *,
        tool: str | None = None,
        args: Mapping[str, object] | None = None,
        text: str = "",
        raw: str | None = None,
        messages: Iterable[Mapping[str, object]] = (),
        usage: Tokens = None,
        ms: float | None = None,
    ) -> None:
        """What the program will do; see `ProgramCycle.decided`."""
        self._session.call(
            self._cycle.decided(what, tool=tool, args=args, text=text, raw=raw, messages=messages, usage=usage, ms=ms)
        )

    def taken(
        self,
        status: OutcomeStatus | None = None,
        *,
        output: object = "",
        error: object = None,
        exit_code: int | None = None,
        usage: Tokens = None,
        ms: float | None = None,
    ) -> None:
        """What came of the decision; see `ProgramCycle.taken`."""
        self._session.call(
            self._cycle.taken(status, output=output, error=error, exit_code=exit_code, usage=usage, ms=ms)
        )

    def reward(self, timeout: float = 30.0) -> float | None:
        """The total of this cycle's experience; see `ProgramCycle.reward`."""
        return self._session.call(self._cycle.reward(timeout))
