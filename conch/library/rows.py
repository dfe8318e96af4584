"""Experiences and marks as flat rows: plain dicts with stable column names, for data frames."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from conch.experience import DecisionState, Transition
from conch.experience.queries import BUILTIN_SCORERS, PHASES
from conch.library.arrow import GOAL, SCORE
from conch_schemas import ExperienceRecorded, Mark

Row = dict[str, object]


def cycle_row(experience: ExperienceRecorded) -> Row:
    """One experience as a flat dict; `HomeReader.cycles` documents the columns."""
    action, outcome, usage = experience.action, experience.outcome, experience.usage
    return {
        **_key(experience),
        "thought": experience.thought,
        "reflection": experience.reflection,
        "raw": experience.raw,
        "kind": action.kind,
        "tool": action.tool,
        "skill": action.skill,
        "valid": action.valid,
        "outcome": outcome.status,
        "error": outcome.error,
        "output": outcome.output.text,
        "total": experience.total,
        "coverage": experience.coverage,
        "complete": experience.complete,
        "revision": experience.revision,
        "model": experience.model,
        "policy": experience.policy,
        "episode": experience.episode,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        **{f"ms_{phase}": experience.ms.get(phase, 0.0) for phase in PHASES},
        **_scores(experience),
        **_needs(experience.needs_before, "before"),
        **_needs(experience.needs_after, "after"),
    }


def nested_cycle_row(experience: ExperienceRecorded) -> Row:
    """The same with all scores, goals and needs as nested columns beside the flat ones, for Arrow."""
    return {
        **cycle_row(experience),
        "scores": [score.model_dump(include=set(SCORE)) for score in experience.scores],
        "goals": [check.model_dump(include=set(GOAL)) for check in experience.goals],
        "needs_before": experience.needs_before,
        "needs_after": experience.needs_after,
    }


def transition_row(transition: Transition) -> Row:
    """One transition; `HomeReader.transitions` documents the columns."""
    experience, following = transition.experience, transition.next_state
    action = experience.action
    return {
        **_key(experience),
        "state": _state(transition.state),
        "action": {
            "kind": action.kind,
            "tool": action.tool,
            "args": json.dumps(action.args, sort_keys=True, ensure_ascii=False),
            "text": action.text,
            "raw": experience.raw,
        },
        "reward": experience.total,
        "coverage": experience.coverage,
        "complete": experience.complete,
        "next_state": None if following is None else _state(following),
        "episode": experience.episode,
        "terminal": experience.terminal,
    }


def score_rows(experience: ExperienceRecorded) -> Iterator[Row]:
    """Every score of one experience; `HomeReader.scores` documents the columns."""
    for score in experience.scores:
        yield _key(experience) | {
            "component": score.component,
            "scorer": score.scorer,
            "version": score.version,
            "status": score.status,
            "value": score.value,
            "weight": score.weight,
            "role": score.role,
            "explanation": score.explanation,
        }


def goal_rows(experience: ExperienceRecorded) -> Iterator[Row]:
    """The measurement of each active goal's check after the act; `HomeReader.goals` documents the columns."""
    for check in experience.goals:
        yield _key(experience) | {
            "goal": check.goal,
            "statement": check.statement,
            "outcome": check.outcome,
            "measure": check.measure,
            "best": check.best,
            "detail": check.detail,
        }


def mark_row(mark: Mark) -> Row:
    """One mark; `HomeReader.marks` documents the columns."""
    return {
        "agent": mark.agent,
        "sequence": mark.sequence,
        "action_id": mark.action_id,
        "domain": mark.domain,
        "origin": mark.origin,
        "evidence": mark.evidence,
        "stimulus": mark.stimulus,
        "response": mark.response,
        "reasoning": mark.reasoning,
        "event": mark.event,
        "previous": mark.previous,
        "hash": mark.hash,
        **{f"principle_{name}": score for name, score in mark.principles.items()},
    }


def _key(experience: ExperienceRecorded) -> Row:
    return {
        "agent": experience.agent,
        "cycle": experience.cycle,
        "action_id": experience.action_id,
        "time": _utc(experience.acted_at),
    }


def _scores(experience: ExperienceRecorded) -> Row:
    """The five built-in components always; of a component that several score, the value in the weight set."""
    values: Row = {}
    for score in experience.scores:
        values.setdefault(f"score_{score.component}", score.value)
    return {f"score_{name}": None for name in BUILTIN_SCORERS} | values


def _state(state: DecisionState) -> Row:
    return {
        "cycle": state.cycle,
        "step": state.step,
        "needs": None if state.needs is None else dict(state.needs),
        "goals": [goal._asdict() for goal in state.goals],
        "observation": [{"role": message.role, "content": message.content} for message in state.observation],
    }


def _needs(needs: Mapping[str, float] | None, when: str) -> Row:
    return {f"need_{name}_{when}": level for name, level in (needs or {}).items()}


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
