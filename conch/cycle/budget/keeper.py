"""Reserves an agent's budget before its mind is asked, and says at which limit it waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from conch.config import SERVED, BudgetSettings, Settings
from conch.cycle.budget.ledger import WINDOWS, Amounts, Ceiling, OpenReservation, ceiling, limits_of, split
from conch.cycle.control import BudgetReport, Control
from conch.cycle.publish import AgentPublisher
from conch.cycle.state.memory import AgentMemory
from conch.errors import ModelError
from conch.minds import Completion, Mind, MindWrapper, Prompt
from conch.text import estimated_tokens
from conch_schemas import BudgetReached, BudgetReserved

FRAMING_TOKENS = 16
"""Tokens that a chat template puts around each message, at most: the endpoint counts them as part of the prompt."""
ONE_ACT = Amounts(acts=1, irreversible_acts=1)
"""What a cycle may need: one act, of any kind."""


class CeilingError(Exception):
    """A question could exceed a limit; the mind was not asked."""

    def __init__(self, reached: Ceiling, keeper: BudgetKeeper) -> None:
        super().__init__(words(reached))
        self.reached, self.keeper = reached, keeper


class BudgetKeeper:
    """The budget of one agent. Its limits may change while it runs."""

    def __init__(
        self, settings: Settings, facts: AgentPublisher, control: Control, end: int, memory: Callable[[], AgentMemory]
    ) -> None:
        """`end`: the stream's end when the run began; it tells this process's events from an earlier one's."""
        self._facts, self._control, self._end, self._memory = facts, control, end, memory
        blocks = settings.mind.blocks().values()
        self._asks = any(one.kind == "openai" or one.kind in SERVED for one in blocks)
        self._priced = [(one.price, one.max_tokens) for one in blocks if one.price is not None]
        self._number = 0
        """Of the ceilings that were published."""
        self._told: tuple[str, float | None] | None = None
        """The ceiling that the agent waits at, as published."""
        self._carries = False
        """Whether the question of the open reservation failed without use, and may be asked again on it."""
        self.limit(settings.budget)

    def limit(self, settings: BudgetSettings) -> None:
        """Hold to these limits from now on."""
        self._limits, self._limits_questions = limits_of(settings), settings.limits_questions and self._asks
        self._share = settings.for_people

    @property
    def share(self) -> float:
        """What of each limit is kept for messages of people, 0..1; 0 while one waits."""
        return 0.0 if self._memory().waiting else self._share

    def counted(self, memory: AgentMemory) -> AgentMemory:
        """The memory as it is kept: where nothing is limited without its uses, which would be 7 KB of each checkpoint
        after a day."""
        if self._limits or not memory.budget.uses:
            return memory
        return memory.model_copy(update={"budget": memory.budget.model_copy(update={"uses": ()})})

    def before_cycle(self) -> Ceiling | None:
        """The limit without room for the open cycle's act, or the next one's; None: there is room. An act that was
        decided before a crash is counted by its outcome, which waits for nothing."""
        memory = self._memory()
        need = ONE_ACT if memory.decided is None else Amounts()
        found = ceiling(memory.budget, need, self._limits, time.time(), self.share)
        if found is None:
            self._told = None
        return found

    async def reserve(self, prompt: Prompt) -> None:
        """Reserve what a question can use, on the stream. Raises CeilingError where there is no room for it."""
        if not self._limits_questions:
            return
        need, memory = self._need(prompt), self._memory()
        carries, self._carries, kept = self._carries, False, memory.budget.open
        if carries and kept is not None and kept.purpose == prompt.purpose and _fits(need, kept):
            return
        reached = ceiling(memory.budget, need, self._limits, time.time(), self.share)
        if reached is not None:
            raise CeilingError(reached, self)
        self._told = None
        self._control.over("budget")
        number = memory.budget.reservations
        event = self._facts.outside(
            BudgetReserved,
            f"{number}/{self._end}",
            number=number,
            purpose=prompt.purpose,
            tokens=need.tokens,
            money=need.money,
        )
        await self._facts.publish(event)

    def has_room_for_rest(self, prompt: Prompt) -> bool:
        """Whether the limits have room for the rest of a reply that is cut off, beside what is reserved for it."""
        if not self._limits_questions:
            return True
        whole, memory = self._need(prompt), self._memory()
        need = Amounts(whole.tokens + prompt.max_tokens, 2 * whole.money)
        return ceiling(memory.budget, need, self._limits, time.time(), self.share) is None

    def failed(self, error: ModelError) -> None:
        """Take note of a question without a reply. One that the endpoint refused, or that did not reach it, has used
        nothing: its reservation is the next one's. Of another it is not known, and the reservation counts as used."""
        self._carries = error.unreachable or error.status is not None

    async def tell(self, reached: Ceiling) -> None:
        """Publish the ceiling, once for as long as it stands."""
        if (reached.budget, reached.until) == self._told:
            return
        self._told = reached.budget, reached.until
        until = None if reached.until is None else datetime.fromtimestamp(reached.until, UTC)
        event = self._facts.outside(
            BudgetReached,
            f"{self._number}/{self._end}",
            budget=reached.budget,
            limit=reached.limit,
            used=reached.used,
            until=until,
            why=words(reached),
        )
        self._number += 1
        await self._facts.publish(event)

    def report(self) -> list[BudgetReport]:
        """How much of each limit is used, the open reservation included."""
        ledger, now = self._memory().budget, time.time()
        rows: list[BudgetReport] = []
        for budget, limit in self._limits.items():
            quantity, window = split(budget)
            rows.append({"budget": budget, "limit": limit, "used": ledger.used(quantity, WINDOWS[window], now)})
        return rows

    def _need(self, prompt: Prompt) -> Amounts:
        said = (prompt.system, *(message.content for message in prompt.messages))
        asked = max(prompt.tokens, sum(map(estimated_tokens, said))) + FRAMING_TOKENS * len(said)
        money = max((price.of(asked, min(prompt.max_tokens, most)) for price, most in self._priced), default=0.0)
        return Amounts(asked + prompt.max_tokens, money)


class BudgetedMind(MindWrapper):
    """Asks a mind once its budget has room."""

    def __init__(self, mind: Mind, keeper: BudgetKeeper) -> None:
        super().__init__(mind)
        self._keeper = keeper

    async def complete(self, prompt: Prompt) -> Completion:
        """The mind's reply. Raises CeilingError where the budget has no room; else what the mind raises."""
        await self._keeper.reserve(prompt)
        try:
            return await self.mind.complete(replace(prompt, may_go_on=self._keeper.has_room_for_rest(prompt)))
        except ModelError as error:
            self._keeper.failed(error)
            raise


def _fits(need: Amounts, kept: OpenReservation) -> bool:
    return need.tokens <= kept.tokens and need.money <= kept.money


def words(reached: Ceiling) -> str:
    """A ceiling in a sentence: the limit, what is used, and until when the agent waits."""
    quantity, window = split(reached.budget)
    what = quantity.replace("_", " ")
    kept = f", {_figure(reached.kept)} kept for people's messages" if reached.kept else ""
    used = (
        f"{_figure(reached.used)} of {_figure(reached.limit)} {what} in the last {window} "
        f"(budget.{reached.budget}){kept}"
    )
    if reached.until is None:
        return f"{used}, and the next question may take {_figure(reached.need)}: raise the limit, then conch resume"
    at = datetime.fromtimestamp(reached.until, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    next_use = f", the next question may take {_figure(reached.need)}" if quantity in ("tokens", "money") else ""
    return f"{used}{next_use}: paused until {at}"


def _figure(amount: float) -> str:
    return f"{amount:,.4f}".rstrip("0").rstrip(".")
