"""Stored bodies read for a few of their fields: many at a time, and not validated beyond those.

Each raises msgspec.DecodeError for a body that does not have them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

import msgspec

from conch_schemas import Action
from conch_schemas.action import ActionKind

skill_of: Final[Callable[[Any], str]] = cast("Any", Action.skill).fget
"""Of whatever has the fields of an action: making one would take ten times as long."""


@dataclass(frozen=True, slots=True)
class ShownScore:
    """A component of a verdict as it counts."""

    component: str
    value: float | None
    weight: float
    status: str
    scorer: str
    version: str


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line of a breakdown without its words."""

    step: str
    amount: float


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """What an action is worth, without the words."""

    scores: tuple[ShownScore, ...]
    breakdown: tuple[ShownLine, ...]
    total: float
    coverage: float
    complete: bool


@dataclass(frozen=True, slots=True)
class ShownNeeds:
    """How satisfied the needs were before and after."""

    before: dict[str, float]
    after: dict[str, float]


@dataclass(frozen=True, slots=True)
class ShownAction:
    """An action as it was parsed."""

    kind: ActionKind
    valid: bool
    reason: str | None = None
    tool: str | None = None
    args: dict[str, object] = field(default_factory=dict)
    text: str | None = None

    @property
    def skill(self) -> str:
        """As an `Action` says it."""
        return skill_of(self)


@dataclass(frozen=True, slots=True)
class ShownAct:
    """What was replied and done."""

    raw: str
    action: ShownAction
    thought: str = ""


@dataclass(frozen=True, slots=True)
class _Outcome:
    status: str


@dataclass(frozen=True, slots=True)
class _Doing:
    action: ShownAction
    outcome: _Outcome


@dataclass(frozen=True, slots=True)
class _DoingRow:
    time: datetime
    data: _Doing


@dataclass(frozen=True, slots=True)
class ShownCheck:
    """What a goal's own check said after an act."""

    goal: str
    statement: str
    outcome: str
    measure: float
    best: float
    """Before this act."""
    accepted: bool = True
    """False of a goal that the agent set itself and nobody had accepted."""


@dataclass(frozen=True, slots=True)
class _Checks:
    goals: tuple[ShownCheck, ...] = ()


@dataclass(frozen=True, slots=True)
class _ChecksRow:
    data: _Checks


@dataclass(frozen=True, slots=True)
class _Timed:
    ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _TimedRow:
    data: _Timed


@dataclass(frozen=True, slots=True)
class _Policy:
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class _Typed:
    type: str


@dataclass(frozen=True, slots=True)
class _Decoded:
    adapter: str | None = None
    state_key: str | None = None


@dataclass(frozen=True, slots=True)
class _Adapted:
    decoding: _Decoded | None = None


@dataclass(frozen=True, slots=True)
class _AdaptedRow:
    data: _Adapted


@dataclass(frozen=True, slots=True)
class _DecidedRow:
    data: _Adapted
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class ShownCost:
    """What an act cost."""

    amount: float
    currency: str


@dataclass(frozen=True, slots=True)
class _Tokens:
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Spent:
    usage: _Tokens = _Tokens()
    cost: ShownCost | None = None


@dataclass(frozen=True, slots=True)
class _SpentRow:
    data: _Spent


@dataclass(frozen=True, slots=True)
class _NeedsRow:
    data: ShownNeeds


@dataclass(frozen=True, slots=True)
class _ActRow:
    data: ShownAct


@dataclass(frozen=True, slots=True)
class _Filed:
    """What an event says that a store puts into columns of its own."""

    row: str | None = None
    round: str | None = None
    version: str | None = None
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class StoredOrigin:
    """Which event a body is, and of whom."""

    id: str
    agent: str
    data: _Filed
    cycle: int | None = None
    actionid: str | None = None


_origin: Final = msgspec.json.Decoder(StoredOrigin).decode
_needs: Final = msgspec.json.Decoder(_NeedsRow).decode
_checks: Final = msgspec.json.Decoder(_ChecksRow).decode
_doing: Final = msgspec.json.Decoder(_DoingRow).decode
_timed: Final = msgspec.json.Decoder(_TimedRow).decode
_policy: Final = msgspec.json.Decoder(_Policy).decode
_typed: Final = msgspec.json.Decoder(_Typed).decode
_adapted: Final = msgspec.json.Decoder(_AdaptedRow).decode
_decided: Final = msgspec.json.Decoder(_DecidedRow).decode
_spent: Final = msgspec.json.Decoder(_SpentRow).decode
_act: Final = msgspec.json.Decoder(_ActRow).decode
stored_verdict: Final = msgspec.json.Decoder(ShownVerdict).decode


def stored_origin(body: bytes) -> StoredOrigin | None:
    """Of any fact: which event it is; None for a body that is none."""
    try:
        return _origin(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def stored_needs(body: bytes) -> ShownNeeds:
    """Of a change of needs."""
    return _needs(body).data


def stored_act(body: bytes) -> ShownAct:
    """Of an act."""
    return _act(body).data


def stored_doing(body: bytes) -> tuple[ShownAction, str, datetime]:
    """Of an act: (action, the outcome's status, time)."""
    row = _doing(body)
    return row.data.action, row.data.outcome.status, row.time


def stored_checks(body: bytes) -> tuple[ShownCheck, ...]:
    """Of an act: its goals' checks."""
    return _checks(body).data.goals


def stored_ms(body: bytes) -> float:
    """Of an act: its milliseconds, from the thought on."""
    return sum(ms for phase, ms in _timed(body).data.ms.items() if phase != "reflect")


def stored_cost(body: bytes) -> tuple[ShownCost | None, int]:
    """Of an act: its cost where that is known, and its tokens in and out."""
    spent = _spent(body).data
    return spent.cost, spent.usage.input_tokens + spent.usage.output_tokens


def stored_policy(body: bytes) -> str | None:
    """Of any fact: the digest of the policy that acted."""
    return _policy(body).policy


def stored_adapter(body: bytes) -> str | None:
    """Of an act: the digest of the adapter that decided; None: the model alone, or none is known."""
    decoding = _adapted(body).data.decoding
    return None if decoding is None else decoding.adapter


def stored_decision(body: bytes) -> tuple[str | None, str | None, str | None]:
    """(policy, adapter, state) of an act, each as it was recorded; None: not known."""
    row = _decided(body)
    decoding = row.data.decoding or _Decoded()
    return row.policy, decoding.adapter, decoding.state_key


def stored_type(body: bytes) -> str:
    """Of any fact: its type, `conch.v1.action.taken`."""
    return _typed(body).type
