"""`ProgramAgent` and `ProgramCycle`: what a program says to publish its acts; made by `conch.agent`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Self, TypeVar

from conch.bus import Bus
from conch.cycle.act import ActionResult
from conch.errors import BusError, ConchError, ContractError
from conch.library.program import ProgramCore, ProgramStep
from conch.library.steps import (
    ERROR_BYTES,
    Tokens,
    Tools,
    action_of,
    messages_of,
    outcome_of,
    raw_of,
    refuse_other_than_text,
    refuse_time,
    usage_of,
    words_of,
)
from conch.library.subscription import Subscription
from conch.tasks import background
from conch.text import cut
from conch_schemas import ExperienceRecorded, OutcomeStatus

T = TypeVar("T")


class ProgramAgent:
    """An agent whose acts a program takes; made by `conch.agent`. One cycle at a time.

    Its calls raise the error that ended the agent: FencedError where another program acts under its name, BusError
    where the bus refuses for good.

    ```python
    import conch

    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus, tools=["search"]) as agent:
        agent: conch.ProgramAgent
        agent.tools({"deploy": "world"})
        async with agent.cycle() as cycle:
            assert (agent.name, cycle.number) == ("mine", 0)
    ```
    """

    def __init__(self, core: ProgramCore, hosting: asyncio.Task[None], bus: Bus, began: int) -> None:
        self.name = core.name
        """The agent's name."""
        self._core, self._hosting, self._bus, self._began = core, hosting, bus, began
        self._open: ProgramCycle | None = None
        self.session: object = None
        """What ends the agent when nothing refers to it any more."""

    def tools(self, tools: Tools) -> None:
        """Declare tools that the program has: names, or by name what each may change (`read`, `workspace`, `world`).

        Acts list them as available; other tools are accepted, and listed once they were used. Raises ContractError for
        a name or an effect that cannot be.
        """
        self._core.tools = self._core.tools.with_tools(tools)

    def cycle(self) -> ProgramCycle:
        """The next cycle, to be entered. Entering waits while the agent is paused (`conch pause`), and raises
        ContractError while another cycle is open."""
        return ProgramCycle(self)

    def rewards(self) -> Subscription[ExperienceRecorded]:
        """The recorded experiences of this agent since it was entered, each revision once; never ends by itself."""
        return Subscription(self._bus, (ExperienceRecorded,), agent=self.name, after=self._began)

    async def _begin(self, cycle: ProgramCycle) -> int:
        if self._open is not None:
            raise ContractError(f"cycle {self._open.number} of {self.name} is open: leave it before the next begins")
        self._open = cycle
        control = self._core.control
        try:
            self._check()
            while control.paused and not control.stopping:
                await self._unless_over(control.change())
            if control.stopping:
                raise ConchError(f"{self.name} was told to stop (conch stop): its program begins no further cycle")
            self._core.idle.clear()
            await self._core.close()  # left open by a cycle that was cancelled
        except BaseException:
            self._end()
            raise
        return self._core.memory.next_cycle

    def _end(self) -> None:
        self._open = None
        self._core.idle.set()

    def _check(self) -> None:
        """Raises the error that ended the agent, ConchError where it has ended, ContractError in another event loop."""
        self._refuse_other_loop()
        if self._hosting.done():
            self._hosting.result()
            raise ConchError(f"{self.name} has ended: enter conch.agent again")

    def _refuse_other_loop(self) -> None:
        if asyncio.get_running_loop() is not self._hosting.get_loop():
            raise ContractError(
                f"{self.name} was entered in another event loop: use it there, or enter conch.agent in this one"
            )

    async def _unless_over(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. Raises what `_check` raises when the agent ends meanwhile."""
        async with background(work, name="conch.program") as waiting:
            await asyncio.wait((waiting, self._hosting), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                self._check()
            return waiting.result()


class ProgramCycle:
    """One cycle of a program: thought, decided, taken, in this order; made by `ProgramAgent.cycle`.

    Each call returns when the bus has stored its event, however long the bus is away. The same call again with the same
    content changes nothing. A call out of order, or again with another content, raises ContractError and publishes
    nothing. Cancelled, the event may be stored or not.

    Left, the cycle is closed: a decision without an outcome is recorded as `unknown`, a cycle without a decision says
    so, one without a thought never was. A cycle that is cancelled, or ended by a signal, is closed so by the next one,
    in this process or another.

    ```python
    import conch

    async with conch.MemoryBus() as bus, conch.agent("mine", bus=bus) as agent:
        async with agent.cycle() as cycle:
            cycle: conch.ProgramCycle
            await cycle.thought("I should look at the weather.")
            await cycle.decided(tool="search", args={"query": "weather"})
            await cycle.taken("success", output="sunny")
    ```
    """

    def __init__(self, agent: ProgramAgent) -> None:
        self._agent, self._core = agent, agent._core
        self._number: int | None = None
        self._since = 0.0
        """When the last step was stored, monotonic seconds."""
        self._turn = asyncio.Lock()
        """One step at a time: two of a kind at once are the same call again, or one is refused."""

    async def __aenter__(self) -> Self:
        self._number = await self._agent._begin(self)
        self._since = time.monotonic()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._agent._check()
                await self._core.close()
            elif isinstance(error, Exception) and not isinstance(error, BusError):
                self._agent._refuse_other_loop()
                words = f"the program left the cycle with {type(error).__name__}: {words_of(error)}"
                await self._core.close(cut(words, ERROR_BYTES).text)
        finally:
            self._agent._end()

    @property
    def number(self) -> int:
        """The cycle's number: one more than that of the cycle before, for ever."""
        if self._number is None:
            raise ContractError("the cycle is not entered: async with agent.cycle() as cycle")
        return self._number

    async def thought(self, text: str, *, usage: Tokens = None, ms: float | None = None) -> None:
        """What the program thinks before it decides; an empty text where it says nothing.

        `usage`: tokens that this took. `ms`: milliseconds; None: those since the cycle began.
        """
        async with self._turn:
            self._in_turn("thought")
            refuse_other_than_text(thought=text)
            if (known := self._core.memory.thought) is not None:
                self._refuse_other("thought", same=known.thought == cut(text))
                return
            await self._core.thought(self.number, text, self._step(usage, ms))
            self._since = time.monotonic()

    async def decided(
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
        """What the program will do: `tool` with `args`, or `what`: `"DO_NOTHING"` or `"REFLECT"` with a `text`, or a
        reply in Conch's grammar, `TOOL: search(query="weather")`.

        Call it before the tool runs: an act that was decided and has no outcome is known to be `unknown` after a crash.
        `raw`: the model's own reply, where there is one. `messages`: what the model was asked with, as a chat's `role`
        and `content`: training reads them. `usage`, `ms`: as of `thought`.
        """
        async with self._turn:
            self._in_turn("decided")
            memory = self._core.memory
            if memory.thought is None:
                raise ContractError(f"cycle {self.number} has no thought yet: call thought before decided")
            action = action_of(what, tool, args, text, self._core.tools)
            said = raw_of(action, what, raw)
            if (known := memory.decided) is not None:
                self._refuse_other("decision", same=known.action == action and known.raw == cut(said).text)
                return
            step = self._step(usage, ms)
            await self._core.decided(self.number, action, said, messages_of(messages), step)
            self._since = time.monotonic()

    async def taken(
        self,
        status: OutcomeStatus | None = None,
        *,
        output: object = "",
        error: object = None,
        exit_code: int | None = None,
        usage: Tokens = None,
        ms: float | None = None,
    ) -> None:
        """What came of the decision: `success`, `error`, `timeout`, `blocked` or `unknown`; `none` where no tool was to
        run. None: `success`, or `none`.

        `output`: the tool's, a text or JSON; of more than 64 KiB head and tail are kept. `error`: one sentence, or the
        exception. `usage`: tokens of the act itself. `ms`: milliseconds of it; None: those since it was decided.
        """
        async with self._turn:
            self._in_turn("taken")
            memory = self._core.memory
            if memory.decided is None:
                raise ContractError(f"cycle {self.number} has no decision yet: call decided before taken")
            took = self._step(usage, ms)
            outcome = outcome_of(memory.decided.action, status, output, error, exit_code, took.ms)
            if (known := memory.taken) is not None:
                same = known.outcome.model_copy(update={"ms": outcome.ms}) == outcome
                self._refuse_other("outcome", same=same)
                return
            await self._core.taken(self.number, ActionResult(outcome, ms=took.ms), took.usage)
            self._since = time.monotonic()

    async def reward(self, timeout: float = 30.0) -> float | None:
        """The total of this cycle's experience, as it was recorded last; None where none was recorded within `timeout`
        seconds. It may be asked for after the cycle was left. Raises ContractError before `taken`."""
        memory = self._core.memory
        if memory.next_cycle <= self.number or (self._agent._open is self and memory.taken is None):
            raise ContractError(f"cycle {self.number} has no outcome yet: call taken before reward")
        self._agent._check()
        try:
            async with asyncio.timeout(timeout):
                return (await self._agent._unless_over(self._core.experience(self.number))).total
        except TimeoutError:
            return None

    def _in_turn(self, step: str) -> None:
        """Raises ContractError outside of the cycle, and the error that ended the agent."""
        if self._agent._open is not self:
            raise ContractError(f"cycle {self.number} of {self._agent.name} is over: {step} belongs inside of it")
        self._agent._check()

    def _refuse_other(self, what: str, *, same: bool) -> None:
        if not same:
            raise ContractError(f"cycle {self.number} has another {what} already: begin the next cycle for a new one")

    def _step(self, usage: Tokens, ms: float | None) -> ProgramStep:
        refuse_time(ms)
        return ProgramStep(usage_of(usage), ms if ms is not None else (time.monotonic() - self._since) * 1000)
