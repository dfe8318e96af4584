"""The join: an act and everything that was said of it, as one experience. Pure.

Two steps, because they change at different times. `judge` makes the verdict (scores, total, coverage) from the weight
set and the scores; a verdict that differs from the recorded one is a new revision. `assemble` puts the act, the verdict
and the context (thought, claims, prompt, needs, reflection) together; context that comes late raises no revision.

Both look at sets of facts, never at their order or number: the same facts give the same bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from conch.folds import made_of, maker
from conch.rewards import total
from conch.text import cut
from conch_schemas import (
    HUMAN_SCORER,
    Action,
    ActionTaken,
    Claim,
    ContractViolationError,
    ExperienceRecorded,
    Line,
    Outcome,
    Part,
    PartRole,
    PromptMessage,
    Score,
    ScoredPart,
    Value,
    consequence_id,
    encode,
    passed_on,
)

NO_WEIGHTS_DEADLINE = 30.0
"""Seconds from the act that an action waits for its weight set, where none is known."""

NO_TASK = "The act belongs to no task."
NOT_AWAITED = "It is not scored yet; no experience waits for it."
"""Why a part of the weight set has no score, where that is no timeout."""

_SHORT = 1024
"""Characters, or bytes of an output, that are left of what is far too long."""

MAX_BESIDE = 100
"""Scores shown beside the parts of one experience at most; the rows keep all of them."""


class ExperienceVerdict(Value):
    """What an action is worth, as far as it is known."""

    scores: tuple[ScoredPart, ...]
    total: float
    breakdown: tuple[Line, ...]
    coverage: float
    complete: bool
    weights: str


class ExperienceContext(NamedTuple):
    """What else is known of an action; each field empty until its fact has come."""

    thought: str | None = None
    claims: tuple[Claim, ...] = ()
    messages: tuple[PromptMessage, ...] = ()
    needs_before: Mapping[str, float] | None = None
    needs_after: Mapping[str, float] | None = None
    reflection: str = ""
    reflect_ms: float | None = None


def version_order(version: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts versions as people do: 1.9 before 1.10, release 2 before 10. Any text has its place.

    >>> version_order("1.9") < version_order("1.10")
    True
    """
    # Digits are compared by length and text: int() refuses more than 4,300 of them, and any consumer names its version.
    chunks = re.findall(r"[0-9]+|[^0-9]+", version)
    return tuple((1, len(n := c.lstrip("0")), n) if c[0] in "0123456789" else (0, 0, c) for c in chunks)


def latest(scores: Iterable[Score]) -> dict[tuple[str, str], Score]:
    """(component, scorer) -> its score of the latest version.

    What stands behind a `+` in a version (a digest of a judge's rubric) tells builds apart and has no order, as in
    SemVer: of these the last of `scores` counts, which stand in the order of the stream. Else their order is nothing.
    """
    there = list(scores)
    only = {(score.component, score.scorer): score for score in there}
    if len(only) == len(there):
        return only
    return {(score.component, score.scorer): score for score in sorted(there, key=lambda one: precedence(one.version))}


def precedence(version: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """A key that sorts versions by which of them counts: builds of one, behind a `+`, are equal."""
    release = version.partition("+")[0]
    return version_order(release), release


def is_awaited(part: Part) -> bool:
    """Whether experiences wait for the part: it bears on the total, and its scorer is a program. A person may score an
    act a day later or never, and what is only recorded changes no total: a score that comes late raises the
    revision."""
    return part.scorer != HUMAN_SCORER and (part.weight > 0.0 or part.role not in ("paid", "held_out"))


def missing(parts: Sequence[Part], scores: Iterable[Score]) -> list[Part]:
    """The awaited parts of which the expected scorer has said nothing yet, neither a value nor a status."""
    there = {(score.component, score.scorer) for score in scores}
    return [part for part in parts if (part.component, part.scorer) not in there and is_awaited(part)]


def patience(parts: Sequence[Part], scores: Iterable[Score]) -> float | None:
    """Seconds from the act to wait for what is missing; None: nothing is. No parts: the weight set is."""
    if not parts:
        return NO_WEIGHTS_DEADLINE
    return max((part.deadline for part in missing(parts, scores)), default=None)


def judge(
    weights: str,
    parts: Sequence[Part],
    scores: Sequence[Score],
    others: Sequence[Part] = (),
    *,
    waits_for_all: bool = False,
) -> ExperienceVerdict:
    """The verdict over the scores that have come; an awaited part (`is_awaited`) that is missing counts as timeout, any
    other one as not applicable until it comes.

    `parts` are those of the act, `others` the parts of the weight set that do not apply to it: they are shown as such.
    `waits_for_all`: every part is awaited, as it was in earlier versions.

    A part is satisfied by its expected scorer alone, by that one's latest version. Everything else that was said (a
    component outside the weight set, somebody else's claim on a part) stands beside it with weight 0. A value outside
    its part's range is an error. Complete: every awaited part has come with whatever status, in time or late. Without
    a weight set nothing is paid: total and coverage 0.
    """
    newest = latest(scores)
    open_parts = [part for part in parts if not waits_for_all and not is_awaited(part) and _key(part) not in newest]
    complete = all(_key(part) in newest or part in open_parts for part in parts)
    counted = {p.component: _in_range(p, newest.pop(k)) for p in parts if (k := _key(p)) in newest}
    shown = [
        _unscored(part, NOT_AWAITED) if part in open_parts else _shown(part, counted.get(part.component))
        for part in parts
    ]
    shown += [_unscored(part, NO_TASK) for part in others if _key(part) not in newest]
    beside = [_scored(newest[key], 0.0, "paid") for key in sorted(newest)[:MAX_BESIDE]]
    if not parts:
        return ExperienceVerdict(
            scores=tuple(beside), total=0.0, breakdown=(), coverage=0.0, complete=False, weights=weights
        )
    result = total([part for part in parts if part not in open_parts], counted)
    return made_of(
        ExperienceVerdict,
        scores=(*shown, *beside),
        total=result.total,
        breakdown=result.breakdown,
        coverage=result.coverage,
        complete=complete,
        weights=weights,
    )


def _key(part: Part) -> tuple[str, str]:
    return part.component, part.scorer


def _in_range(part: Part, score: Score) -> Score:
    """The score, or an error where it lies outside the part's range: the range it states itself is only its word."""
    low, high = part.range
    if score.value is None or low <= score.value <= high:
        return score
    why = f"{score.value:g} is outside the part's range {low:g}..{high:g}"
    return score.model_copy(update={"value": None, "status": "error", "explanation": why})


def _shown(part: Part, score: Score | None) -> ScoredPart:
    if score is not None:
        return _scored(score, part.weight, part.role)
    return ScoredPart(
        component=part.component,
        value=None,
        weight=part.weight,
        status="timeout",
        explanation=f"nothing came within {part.deadline:g} s",
        scorer=part.scorer,
        version="",
        role=part.role,
    )


def _unscored(part: Part, why: str) -> ScoredPart:
    return ScoredPart(
        component=part.component,
        value=None,
        weight=part.weight,
        status="not_applicable",
        explanation=why,
        scorer=part.scorer,
        version="",
        role=part.role,
    )


def _scored(score: Score, weight: float, role: PartRole) -> ScoredPart:
    return _a_scored_part(
        {
            "component": score.component,
            "value": score.value,
            "weight": weight,
            "status": score.status,
            "explanation": score.explanation,
            "scorer": score.scorer,
            "version": score.version,
            "role": role,
        }
    )


_a_scored_part = maker(ScoredPart)


def assemble(
    act: ActionTaken,
    seq: int,
    verdict: ExperienceVerdict,
    context: ExperienceContext,
    *,
    revision: int,
    recorded: datetime,
) -> ExperienceRecorded:
    """The experience of `act`, which has an action id and a cycle; `seq` is its place.

    The id follows from the act and the revision.
    """
    reflect = {} if context.reflect_ms is None else {"reflect": context.reflect_ms}
    identity = revision_id(act, revision)
    return made_of(
        ExperienceRecorded,
        id=identity,
        source=act.source,
        subject=act.action_id,
        time=recorded,
        agent=act.agent,
        cycle=act.cycle,
        action_id=act.action_id,
        causation_id=act.id,
        traceparent=passed_on(act.traceparent, identity),
        policy=act.policy,
        step=act.step,
        seq=seq,
        acted_at=act.time,
        thought=act.thought if context.thought is None else context.thought,
        claims=context.claims,
        memory=act.memory,
        messages=context.messages,
        raw=act.raw,
        action=act.action,
        constrained=act.constrained,
        outcome=act.outcome,
        goals=act.goals,
        scores=verdict.scores,
        total=verdict.total,
        breakdown=verdict.breakdown,
        coverage=verdict.coverage,
        complete=verdict.complete,
        revision=revision,
        weights=verdict.weights,
        needs_before=None if context.needs_before is None else dict(context.needs_before),
        needs_after=None if context.needs_after is None else dict(context.needs_after),
        reflection=context.reflection,
        model=act.model,
        usage=act.usage,
        ms=act.ms | reflect,
        episode=act.episode,
        terminal=act.terminal,
        skills_on_offer=0 if act.effect is None else act.effect.skills_on_offer,
        decoding=act.decoding,
        cost=act.cost,
        team=act.team,
    )


def revision_id(act: ActionTaken, revision: int) -> str:
    """The id of the experience of `act` in this revision."""
    return consequence_id(act.id, "store", "1", ExperienceRecorded, index=revision - 1)


def fitting(experience: ExperienceRecorded) -> ExperienceRecorded:
    """The experience as an event that can be published: as it is, or without what makes it too large.

    Each fact fits an event by itself, all together need not, and a store that cannot publish one would stand still.
    Left out, until it fits: what only other facts say, then long explanations, then thought and arguments; of facts
    that no part of ours has made then long words of any kind, and at the end all that is not the verdict's figures.
    """
    for update in _shorter(experience):
        if _fits(experience):
            break
        experience = experience.model_copy(update=update)
    return experience


def _shorter(experience: ExperienceRecorded) -> Iterator[dict[str, object]]:
    """What to put in the place of what, step after step."""
    yield {"messages": ()}
    scores = tuple(score.model_copy(update={"explanation": score.explanation[:200]}) for score in experience.scores)
    yield {"claims": (), "memory": (), "goals": (), "reflection": "", "scores": scores}
    action, outcome = experience.action, experience.outcome
    yield {"thought": "", "action": action.model_copy(update={"args": {}})}
    yield {
        "raw": experience.raw[:_SHORT],
        "action": Action(kind=action.kind, valid=action.valid, tool=(action.tool or "")[:_SHORT] or None),
        "outcome": Outcome(status=outcome.status, output=cut(outcome.output.text, _SHORT), ms=outcome.ms),
    }
    yield {"scores": (), "breakdown": (), "weights": experience.weights[:_SHORT], "model": experience.model[:_SHORT]}
    yield {"needs_before": None, "needs_after": None, "ms": {}, "policy": None, "episode": None, "team": None}


def _fits(experience: ExperienceRecorded) -> bool:
    try:
        encode(experience)
    except ContractViolationError:
        return False
    return True
