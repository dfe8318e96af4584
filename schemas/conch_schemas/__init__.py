"""The events of Conch as pydantic models, their CloudEvents envelope, encoding, and subjects on the bus."""

from conch_schemas.action import (
    Action,
    AnsweredMessage,
    Claim,
    Cost,
    Cut,
    Effect,
    GoalCheck,
    GoalOutcome,
    Outcome,
    OutcomeStatus,
    PromptMessage,
    Usage,
)
from conch_schemas.alarm import AlarmKind, AlarmRaised
from conch_schemas.approval import ActApproved, ActAsked, ActDenied
from conch_schemas.budget import BudgetReached, BudgetReserved
from conch_schemas.cycle import (
    ActionDecided,
    ActionTaken,
    CycleReflected,
    PolicySet,
    ThoughtFormed,
    ThoughtGrounded,
)
from conch_schemas.decoding import Constraint, Decoding
from conch_schemas.effect import ChangedLines, CheckRun, ContextUse, EffectKind, Information, MeasuredEffect
from conch_schemas.envelope import (
    MAX_EVENT_BYTES,
    Event,
    Value,
    action_id,
    consequence_id,
    cycle_event_id,
    event_type,
    source_of,
)
from conch_schemas.experience import ExperienceRecorded, Line, ScoredPart
from conch_schemas.failure import ConsumerFailed
from conch_schemas.forgetting import FORGOTTEN_REASONING, PersonForgotten
from conch_schemas.fork import ForkScored
from conch_schemas.goal import Check, CommandCheck, FileCheck, Goal, GoalDropped, GoalReached, GoalSet, TestsCheck
from conch_schemas.json_object import JsonObject
from conch_schemas.memory import ContradictoryMemories, MemoryConsolidated, MergedMemory
from conch_schemas.message import SESSION_PATTERN, AnswerRated, MessageReceived, MessageSent
from conch_schemas.needs import NeedChange, NeedsChanged
from conch_schemas.novelty import Drives, NoveltyMeasured
from conch_schemas.pause import AgentPaused, AgentResumed
from conch_schemas.registry import EVENTS, AnyEvent, ContractViolationError, decode, encode, wire_form
from conch_schemas.review import REVIEWER_PATTERN, ROW_PATTERN, ReviewDecided, ReviewDecision
from conch_schemas.reward import (
    BUILTIN_SCORER,
    LARGEST_SCORE,
    Part,
    PartRole,
    Principle,
    RewardAssigned,
    Score,
    ScoreStatus,
    WeightsSet,
)
from conch_schemas.sense import SenseMeasured, SenseValue
from conch_schemas.subjects import (
    STREAM_SUBJECTS,
    agent_filter,
    agent_of,
    control_subject,
    subject_filter,
    subject_of,
    type_filter,
    type_of,
)
from conch_schemas.task import TaskProgressed
from conch_schemas.trace import passed_on, trace_id, trace_of, traceparent_of
from conch_schemas.verify import verify_ids
from conch_schemas.witness import Mark, MarkLink, MarkWitnessed

__all__ = [
    "BUILTIN_SCORER",
    "EVENTS",
    "FORGOTTEN_REASONING",
    "LARGEST_SCORE",
    "MAX_EVENT_BYTES",
    "REVIEWER_PATTERN",
    "ROW_PATTERN",
    "SESSION_PATTERN",
    "STREAM_SUBJECTS",
    "ActApproved",
    "ActAsked",
    "ActDenied",
    "Action",
    "ActionDecided",
    "ActionTaken",
    "AgentPaused",
    "AgentResumed",
    "AlarmKind",
    "AlarmRaised",
    "AnswerRated",
    "AnsweredMessage",
    "AnyEvent",
    "BudgetReached",
    "BudgetReserved",
    "ChangedLines",
    "Check",
    "CheckRun",
    "Claim",
    "CommandCheck",
    "Constraint",
    "ConsumerFailed",
    "ContextUse",
    "ContractViolationError",
    "ContradictoryMemories",
    "Cost",
    "Cut",
    "CycleReflected",
    "Decoding",
    "Drives",
    "Effect",
    "EffectKind",
    "Event",
    "ExperienceRecorded",
    "FileCheck",
    "ForkScored",
    "Goal",
    "GoalCheck",
    "GoalDropped",
    "GoalOutcome",
    "GoalReached",
    "GoalSet",
    "Information",
    "JsonObject",
    "Line",
    "Mark",
    "MarkLink",
    "MarkWitnessed",
    "MeasuredEffect",
    "MemoryConsolidated",
    "MergedMemory",
    "MessageReceived",
    "MessageSent",
    "NeedChange",
    "NeedsChanged",
    "NoveltyMeasured",
    "Outcome",
    "OutcomeStatus",
    "Part",
    "PartRole",
    "PersonForgotten",
    "PolicySet",
    "Principle",
    "PromptMessage",
    "ReviewDecided",
    "ReviewDecision",
    "RewardAssigned",
    "Score",
    "ScoreStatus",
    "ScoredPart",
    "SenseMeasured",
    "SenseValue",
    "TaskProgressed",
    "TestsCheck",
    "ThoughtFormed",
    "ThoughtGrounded",
    "Usage",
    "Value",
    "WeightsSet",
    "action_id",
    "agent_filter",
    "agent_of",
    "consequence_id",
    "control_subject",
    "cycle_event_id",
    "decode",
    "encode",
    "event_type",
    "passed_on",
    "source_of",
    "subject_filter",
    "subject_of",
    "trace_id",
    "trace_of",
    "traceparent_of",
    "type_filter",
    "type_of",
    "verify_ids",
    "wire_form",
]
