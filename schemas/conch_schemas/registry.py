"""The registry of all events, with their encoder and decoder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Annotated, Final

import msgspec
from pydantic import Field, TypeAdapter, ValidationError

from conch_schemas.alarm import AlarmRaised
from conch_schemas.approval import ActApproved, ActAsked, ActDenied
from conch_schemas.budget import BudgetReached, BudgetReserved
from conch_schemas.cycle import ActionDecided, ActionTaken, CycleReflected, PolicySet, ThoughtFormed, ThoughtGrounded
from conch_schemas.envelope import ENVELOPE, MAX_EVENT_BYTES, Event
from conch_schemas.experience import ExperienceRecorded
from conch_schemas.failure import ConsumerFailed
from conch_schemas.forgetting import PersonForgotten
from conch_schemas.fork import ForkScored
from conch_schemas.goal import GoalAccepted, GoalDropped, GoalReached, GoalSet
from conch_schemas.json_object import JsonObject
from conch_schemas.memory import MemoryConsolidated
from conch_schemas.message import AnswerRated, MessageReceived, MessageSent
from conch_schemas.needs import NeedsChanged
from conch_schemas.novelty import NoveltyMeasured
from conch_schemas.pause import AgentPaused, AgentResumed
from conch_schemas.review import ReviewDecided
from conch_schemas.reward import RewardAssigned, WeightsSet
from conch_schemas.sense import SenseMeasured
from conch_schemas.sleep import AgentSlept, AgentWoke
from conch_schemas.task import TaskProgressed
from conch_schemas.team import (
    TeamDecided,
    TeamFormed,
    TeamMessage,
    TeamPassed,
    TeamRewarded,
    TeamSwitchAborted,
    TeamSwitched,
    TeamSwitchPrepared,
)
from conch_schemas.training import (
    AdapterGated,
    AdapterProbed,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    AdapterShadowed,
    AdapterTried,
    TrainingFailed,
    TrainingFinished,
    TrainingProgressed,
    TrainingStarted,
)
from conch_schemas.witness import MarkWitnessed

OF_TRAINING: Final[tuple[type[Event], ...]] = (
    TrainingStarted,
    TrainingProgressed,
    TrainingFinished,
    TrainingFailed,
    AdapterGated,
    AdapterTried,
    AdapterRefused,
    AdapterPromoted,
    AdapterRolledBack,
    AdapterProbed,
    AdapterShadowed,
)
"""The events of training and of which adapter acts."""
OF_TEAMS: Final[tuple[type[Event], ...]] = (
    TeamFormed,
    TeamMessage,
    TeamPassed,
    TeamDecided,
    TeamRewarded,
    TeamSwitchPrepared,
    TeamSwitched,
    TeamSwitchAborted,
)
"""The events of teams."""
EVENTS: Final[tuple[type[Event], ...]] = (
    PolicySet,
    ThoughtFormed,
    ThoughtGrounded,
    ActAsked,
    ActApproved,
    ActDenied,
    ActionDecided,
    ActionTaken,
    CycleReflected,
    RewardAssigned,
    NeedsChanged,
    NoveltyMeasured,
    WeightsSet,
    MessageReceived,
    MessageSent,
    AnswerRated,
    SenseMeasured,
    MarkWitnessed,
    ExperienceRecorded,
    GoalSet,
    GoalAccepted,
    GoalReached,
    GoalDropped,
    AgentPaused,
    AgentResumed,
    AgentSlept,
    AgentWoke,
    BudgetReserved,
    BudgetReached,
    TaskProgressed,
    MemoryConsolidated,
    ForkScored,
    ReviewDecided,
    *OF_TRAINING,
    *OF_TEAMS,
    PersonForgotten,
    AlarmRaised,
    ConsumerFailed,
)
"""Every event of version 1, in the order of the documentation."""

AnyEvent = Annotated[
    PolicySet
    | ThoughtFormed
    | ThoughtGrounded
    | ActAsked
    | ActApproved
    | ActDenied
    | ActionDecided
    | ActionTaken
    | CycleReflected
    | RewardAssigned
    | NeedsChanged
    | NoveltyMeasured
    | WeightsSet
    | MessageReceived
    | MessageSent
    | AnswerRated
    | SenseMeasured
    | MarkWitnessed
    | ExperienceRecorded
    | GoalSet
    | GoalAccepted
    | GoalReached
    | GoalDropped
    | AgentPaused
    | AgentResumed
    | AgentSlept
    | AgentWoke
    | BudgetReserved
    | BudgetReached
    | TaskProgressed
    | MemoryConsolidated
    | ForkScored
    | ReviewDecided
    | TrainingStarted
    | TrainingProgressed
    | TrainingFinished
    | TrainingFailed
    | AdapterGated
    | AdapterTried
    | AdapterRefused
    | AdapterPromoted
    | AdapterRolledBack
    | AdapterProbed
    | AdapterShadowed
    | TeamFormed
    | TeamMessage
    | TeamPassed
    | TeamDecided
    | TeamRewarded
    | TeamSwitchPrepared
    | TeamSwitched
    | TeamSwitchAborted
    | PersonForgotten
    | AlarmRaised
    | ConsumerFailed,
    Field(discriminator="type"),
]
"""Any event, discriminated by `type`."""

_ADAPTER: Final[TypeAdapter[Event]] = TypeAdapter(AnyEvent)


class ContractViolationError(ValueError):
    """Bytes that are not an event of this contract, or an event too large to publish. The message is one sentence."""


# The same bytes as pydantic's own serializer, in a third of the time: a model's fields are the entries of __dict__.
_write: Final = msgspec.json.Encoder(enc_hook=attrgetter("__dict__")).encode
_ENVELOPE: Final = tuple(ENVELOPE.items())
# Bypasses the model's own attribute access, which searches widely for an attribute that is not set yet.
_made: Final[Callable[[Event], bytes]] = Event.__dict__["_wire"].__get__
_keep: Final[Callable[[Event, bytes], None]] = Event.__dict__["_wire"].__set__


@cache
def _data_of(kind: type[Event]) -> tuple[str, ...]:
    return tuple(name for name in kind.model_fields if name not in ENVELOPE)


def wire_form(event: Event) -> bytes:
    """The bytes of `encode` for an event of any size. Cached: an event does not change."""
    try:
        return _made(event)
    except AttributeError:
        pass
    flat = event.__dict__
    whole: JsonObject = {theirs: value for ours, theirs in _ENVELOPE if (value := flat[ours]) is not None}
    whole["data"] = {name: flat[name] for name in _data_of(type(event))}
    made = _write(whole)
    _keep(event, made)
    return made


def encode(event: Event) -> bytes:
    """The event's wire form: structured CloudEvents JSON, UTF-8.

    Raises ContractViolationError for an event of more than MAX_EVENT_BYTES.
    """
    data = wire_form(event)
    if len(data) > MAX_EVENT_BYTES:
        raise ContractViolationError(f"{event.TYPE} {event.id} has {len(data)} bytes, more than {MAX_EVENT_BYTES}")
    return data


def decode(data: bytes) -> Event:
    """The event in these bytes; unknown fields are ignored at every level.

    Raises ContractViolationError, and nothing else, for anything that is not an event of version 1.
    """
    try:
        return _ADAPTER.validate_json(data, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the envelope"
        raise ContractViolationError(f"not an event of version 1: {where}: {first['msg']}") from None
