"""The views of acts that wait for a person's approval, for `conch approve --json`, the API and the pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from conch.views.base import View
from conch.views.line import action_words
from conch_schemas import ActAsked

WORDS = 2000
"""Characters of a call in a line: a person must see what is asked for."""
ID_SHOWN = 8
"""Characters of an action's id that name the act; `conch approve` takes them."""


class WaitingAct(View):
    """An act that waits for a person's approval."""

    id: str
    """The beginning of its action's id, by which it is approved or denied."""
    agent: str
    cycle: int
    act: str
    """Tool and operation."""
    args: dict[str, JsonValue]
    words: str
    """The call in a line."""
    why: str
    """The rule that asks, in a sentence."""
    asked: datetime
    until: datetime
    """When it is denied if no decision has come, UTC."""


class Approvals(View):
    """All acts that wait, as `conch approve list --json` prints them."""

    schema_: Literal["conch.v1.approvals"] = Field(default="conch.v1.approvals", alias="schema")
    acts: tuple[WaitingAct, ...]


class Decided(View):
    """The result of `conch approve ID --json`."""

    schema_: Literal["conch.v1.approval"] = Field(default="conch.v1.approval", alias="schema")
    id: str
    agent: str
    decision: Literal["approved", "denied"]
    running: bool
    """Whether the agent goes on at once; else when it runs."""


def approvals_shown(acts: Sequence[ActAsked]) -> Approvals:
    """Each act with its call and the rule that asks."""
    return Approvals(acts=tuple(waiting_act_shown(asked) for asked in acts))


def waiting_act_shown(asked: ActAsked) -> WaitingAct:
    """One act with its call and the rule that asks."""
    assert asked.cycle is not None  # it is of an act
    return WaitingAct(
        id=str(asked.action_id)[:ID_SHOWN],
        agent=asked.agent,
        cycle=asked.cycle,
        act=asked.action.skill,
        args=asked.action.args,
        words=action_words(asked.action, WORDS),
        why=asked.why,
        asked=asked.time,
        until=asked.until,
    )
