"""The text of a mark: an event described in words, built from its own fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, get_args

from conch_schemas import (
    BUILTIN_SCORER,
    HUMAN_SCORER,
    ActApproved,
    ActDenied,
    ActionTaken,
    AdapterGated,
    AdapterProbed,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    AdapterShadowed,
    AdapterTried,
    AgentPaused,
    AgentResumed,
    AlarmRaised,
    AnswerRated,
    CycleReflected,
    Event,
    ExperienceRecorded,
    ForkScored,
    GoalAccepted,
    GoalDropped,
    GoalReached,
    GoalSet,
    MessageReceived,
    MessageSent,
    NeedsChanged,
    NoveltyMeasured,
    PersonForgotten,
    PolicySet,
    ReviewDecided,
    RewardAssigned,
    Score,
    ScoredPart,
    TrainingFailed,
    TrainingFinished,
    TrainingProgressed,
    TrainingStarted,
    WeightsSet,
)

Scored = RewardAssigned | NeedsChanged | NoveltyMeasured
"""The events that bring scores."""
Outside = (
    MessageReceived
    | MessageSent
    | AnswerRated
    | GoalSet
    | GoalAccepted
    | GoalReached
    | GoalDropped
    | AgentPaused
    | AgentResumed
    | ActApproved
    | ActDenied
    | ReviewDecided
    | PersonForgotten
)
"""What people and the agent say, rate, set, end, decide on and let remove."""
OfTraining = (
    TrainingStarted
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
)
"""The events of `OF_TRAINING`: training, and which adapter acts."""
Beside = WeightsSet | PolicySet | CycleReflected | ForkScored | OfTraining
"""What a store keeps beside acts and their scores: what they were judged and decided by, reflections, candidates of
forks, the history of adapters."""
Witnessed = ActionTaken | Scored | ExperienceRecorded | AlarmRaised | Outside | Beside
"""The events that get a mark."""
WITNESSED_KINDS: Final[tuple[type[Event], ...]] = get_args(Witnessed)
"""The same as a list: what the witness reads."""
SEALED_KINDS: Final = tuple(kind for kind in WITNESSED_KINDS if kind is not ExperienceRecorded)
"""The events that marks seal whole; of an experience a mark seals the total with all that adds up to it."""

_LONGEST: Final = 1000
"""Most characters of one text in a mark; the whole text is in the witnessed event."""


MarkDomain = Literal[
    "action",
    "score",
    "alarm",
    "message",
    "goal",
    "pause",
    "approval",
    "forgetting",
    "review",
    "needs",
    "weights",
    "policy",
    "reflection",
    "fork",
    "training",
]


class MarkText(NamedTuple):
    """The text fields of a mark."""

    origin: str
    domain: MarkDomain
    stimulus: str
    response: str
    reasoning: str
    evidence: Literal["fact", "check", "judgement"]
    tags: tuple[str, ...] = ()


def score_sets(fact: Scored) -> tuple[Score, ...]:
    """The scores that the event brings; none for a need that no act changed."""
    if isinstance(fact, RewardAssigned):
        return fact.scores
    return () if fact.score is None else (fact.score, *fact.beside)


def words_for(fact: Witnessed) -> MarkText | None:
    """The text of the mark for `fact`; None for an event without a score that is no change of needs, and for a denial
    that no person made."""
    match fact:
        case ActionTaken():
            return _act(fact)
        case AlarmRaised():
            return _alarm(fact)
        case ExperienceRecorded():
            return _verdict(fact)
        case RewardAssigned() | NeedsChanged() | NoveltyMeasured():
            scores = score_sets(fact)
            scorer = fact.scorer if isinstance(fact, RewardAssigned) else scores[0].scorer if scores else ""
            if not scorer:
                return _needs(fact) if isinstance(fact, NeedsChanged) else None
            return _scores(scorer, fact.action_id, scores)
        case MessageReceived() | MessageSent():
            return _message(fact)
        case AnswerRated():
            return _rating(fact)
        case GoalSet() | GoalAccepted() | GoalReached() | GoalDropped():
            return _goal(fact)
        case ActApproved() | ActDenied():
            return _approval(fact)
        case ReviewDecided():
            return _review(fact)
        case PersonForgotten():
            return _forgetting(fact)
        case WeightsSet() | PolicySet() | CycleReflected() | ForkScored():
            return _beside(fact)
        case AgentPaused() | AgentResumed():
            return _pause(fact)
    return _training(fact)


def _pause(fact: AgentPaused | AgentResumed) -> MarkText:
    paused = isinstance(fact, AgentPaused)
    response = "The agent was paused." if paused else "The agent was resumed."
    return MarkText("user", "pause", "", response, "A person asked for it.", "fact")


def _act(action: ActionTaken) -> MarkText:
    act, outcome, said = action.action, action.outcome, action.message
    error = "" if outcome.error is None else f": {_short(outcome.error).rstrip('.')}"
    reasons = [
        *([f"It answers the message of {_short(said.sender)}."] if said is not None else []),
        f"Thought: {_short(action.thought)}" if action.thought else "No thought is known.",
        "The reply is valid." if act.valid else f"The reply is not valid: {_short(act.reason or 'no reason given')}.",
        f"Outcome: {outcome.status}{error}.",
        *(f"Goal “{_short(goal.statement)}”: {goal.outcome}, {goal.measure:g} of 1." for goal in action.goals),
    ]
    return MarkText(
        origin=action.agent,
        domain="action",
        stimulus=_short(action.thought if said is None else said.text),
        response=_short(action.raw),
        reasoning=" ".join(reasons),
        evidence="check" if action.goals else "fact",
    )


def _scores(scorer: str, action_id: str | None, scores: Sequence[Score]) -> MarkText:
    said = ", ".join(f"{score.component} {_value(score)}" for score in scores)
    why = " ".join(f"{score.component}: {_short(score.explanation)}" for score in scores)
    return MarkText(
        origin=scorer,
        domain="score",
        stimulus=f"action {action_id}",
        response=said,
        reasoning=why,
        evidence=_tier(scorer),
    )


def _alarm(alarm: AlarmRaised) -> MarkText:
    of = f" of {_short(alarm.component)}" if alarm.component is not None else ""
    return MarkText(
        origin="watch",
        domain="alarm",
        stimulus=f"action {alarm.action_id}",
        response=_short(alarm.what),
        reasoning=(
            f"The figure {alarm.alarm}{of} over {alarm.window} acts is {alarm.value:.4g}; its bound is "
            f"{alarm.threshold:.4g}: the alarm {'begins' if alarm.active else 'is over'}."
        ),
        evidence="check",
    )


def _verdict(experience: ExperienceRecorded) -> MarkText:
    of = f"action {experience.action_id}"
    parts = [part for part in experience.scores if part.status != "timeout" or part.version]
    said = ", ".join(f"{part.component} {_value(part)}" for part in experience.scores)
    tiers = {_tier(part.scorer) for part in parts}
    tier: Literal["fact", "check", "judgement"] = (
        "judgement" if "judgement" in tiers else "check" if "check" in tiers else "fact"
    )
    state = "All parts have come." if experience.complete else "Some parts have not come."
    return MarkText(
        origin="store",
        domain="score",
        stimulus=of if experience.revision == 1 else f"{of}, revision {experience.revision}",
        response=f"{_short(said)}: total {experience.total:g}" if said else f"total {experience.total:g}",
        reasoning=" ".join([state, *(f"{part.component}: {_short(part.explanation)}" for part in parts)]),
        evidence=tier,
    )


def _message(message: MessageReceived | MessageSent) -> MarkText:
    received = isinstance(message, MessageReceived)
    answers = "" if isinstance(message, MessageReceived) or message.answers is None else f"message {message.answers}"
    return MarkText(
        origin=_short(message.sender) if isinstance(message, MessageReceived) else message.agent,
        domain="message",
        stimulus=answers,
        response=_short(message.text),
        reasoning="A person sent the agent this message." if received else "The agent sent this message.",
        evidence="fact",
    )


def _rating(rated: AnswerRated) -> MarkText:
    response = rated.rating if not rated.text else f"{rated.rating}: {_short(rated.text)}"
    why = "A person rated the answer to this message."
    return MarkText("user", "message", f"message {rated.message}", response, why, "judgement")


def _goal(event: GoalSet | GoalAccepted | GoalReached | GoalDropped) -> MarkText:
    match event:
        case GoalSet():
            statement, number = _short(event.goal.statement), event.goal.id
            return MarkText(event.by, "goal", "", f"set: {statement}", "The goal became active.", "fact", (number,))
        case GoalAccepted():
            why = _short(event.why) or "No reason was given."
            return MarkText(event.by, "goal", f"goal {_short(event.goal)}", "accepted", why, "judgement", (event.goal,))
        case GoalReached():
            said, why = f"reached: {_short(event.statement)}", "The goal's own check succeeded."
            return MarkText(event.agent, "goal", f"goal {_short(event.goal)}", said, why, "check", (event.goal,))
    why = _short(event.why) or "No reason was given."
    if event.vetoed:
        return MarkText("user", "goal", f"goal {_short(event.goal)}", "vetoed", why, "judgement", (event.goal,))
    return MarkText(event.agent, "goal", f"goal {_short(event.goal)}", "dropped", why, "fact", (event.goal,))


def _approval(event: ActApproved | ActDenied) -> MarkText | None:
    if event.by != "user":
        return None
    said = "approved" if isinstance(event, ActApproved) else "denied"
    why = _short(event.why) or "No reason was given."
    return MarkText(event.by, "approval", f"action {event.action_id}", f"The act was {said}.", why, "judgement")


def _review(decided: ReviewDecided) -> MarkText:
    said = f"{decided.decision} as row of {_short(decided.format)}"
    if decided.preferred is not None:
        said += f", the {decided.preferred} reply preferred without knowing which it is"
    if decided.text is not None:
        said += f": {_short(decided.text)}"
    why = _short(decided.reason) or "No reason was given."
    return MarkText(decided.reviewer, "review", f"row {decided.row}", said, why, "judgement", (decided.row,))


def _forgetting(event: PersonForgotten) -> MarkText:
    counts = (len(event.actions), "actions"), (len(event.events), "events"), (len(event.marks), "marks' words")
    said = ", ".join(f"{count} {what}" for count, what in counts if count)
    return MarkText("user", "forgetting", "", f"removed: {said or 'files'}", "A person asked for it.", "fact")


def _needs(event: NeedsChanged) -> MarkText:
    changes = ", ".join(f"{change.need} {change.delta:+g}" for change in event.changes)
    why = " ".join(f"{change.need}: {_short(change.why)}" for change in event.changes) or "Time has passed."
    return MarkText("needs", "needs", "", _short(changes) or "no need changed", _short(why), "fact")


def _beside(event: WeightsSet | PolicySet | CycleReflected | ForkScored) -> MarkText:
    match event:
        case WeightsSet():
            said = ", ".join(f"{part.component} {part.weight:g}" for part in event.parts)
            why = f"The weight set {_short(event.version)} governs the acts behind it."
            return MarkText("user", "weights", "", _short(said), why, "fact", (_short(event.version),))
        case PolicySet():
            adapter = "" if event.adapter is None else f", adapter {_short(event.adapter)}"
            said, why = f"{_short(event.mind)}, model {_short(event.model)}{adapter}", "This policy acts from now on."
            return MarkText(event.agent, "policy", "", said, why, "fact", (_short(event.policy or ""),))
        case CycleReflected():
            said = _short(event.reflection) or "no reflection"
            why = "The cycle has ended."
            return MarkText(event.agent, "reflection", f"action {event.action_id}", said, why, "fact")
    why = f"A candidate for the decision was tried in a copy of the workspace: total {event.total:g}."
    return MarkText("fork", "fork", f"action {event.action_id}", _short(event.raw), why, "check")


def _training(event: OfTraining) -> MarkText:
    what = getattr(event, "adapter", None) or getattr(event, "round", None) or ""
    why = _short(getattr(event, "why", "")) or "The trainer said so."
    return MarkText("trainer", "training", _short(what), event.TYPE, why, "check")


def _value(score: Score | ScoredPart) -> str:
    return score.status if score.value is None else f"{score.value:g}"


def _tier(scorer: str) -> Literal["fact", "check", "judgement"]:
    """Evidence tier: built-in scorers read structured facts, a person judges, and any other scorer is a program."""
    if scorer in (BUILTIN_SCORER, "needs", "curiosity"):
        return "fact"
    return "judgement" if scorer == HUMAN_SCORER else "check"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
