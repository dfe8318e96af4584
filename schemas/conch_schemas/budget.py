"""The events of an agent's budget: what was reserved for a question to its mind, and a ceiling that it waits at."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from conch_schemas.envelope import Event


class BudgetReserved(Event):
    """Tokens and money were reserved for a question, before the mind is asked; the event of the reply settles them."""

    TYPE: ClassVar = "budget.reserved"
    type: Literal["conch.v1.budget.reserved"] = "conch.v1.budget.reserved"
    number: int = Field(ge=0)
    """Of the agent's reservations, from 0 on."""
    purpose: Literal["think", "decide", "reflect"]
    tokens: int = Field(ge=0)
    """Most tokens that the question can use, prompt and reply."""
    money: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Their price in `mind.currency`; 0 where no price is known."""


class BudgetReached(Event):
    """The agent waits: its next cycle or question could exceed a limit of its budget."""

    TYPE: ClassVar = "budget.reached"
    type: Literal["conch.v1.budget.reached"] = "conch.v1.budget.reached"
    budget: str = Field(pattern=r"^[a-z_]{1,48}$")
    """The setting below `budget`, such as `tokens_per_hour`."""
    limit: float
    used: float
    """Used and reserved within the window, in the unit of the limit."""
    until: datetime | None = None
    """When there will be room, UTC; none: never, as one question may need more than the limit."""
    why: str
    """A sentence."""
