"""The views of two cycles beside each other, and of a cycle that is replayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field

from conch.views.base import View
from conch.views.line import action_words
from conch_schemas import Action, ExperienceRecorded

Shown = str | float | int | None
ACTION_WIDTH = 200
"""Characters of an action and of a reply's beginning."""


class DiffRow(View):
    """One thing of two cycles."""

    section: Literal["prompt", "decision", "outcome", "scores", "needs", "total"]
    name: str
    one: Shown
    """None: the first cycle has none."""
    other: Shown
    same: bool


class CycleDiff(View):
    """Two cycles side by side, as `conch cycle diff --json` prints them."""

    schema_: Literal["conch.v1.cycle_diff"] = Field(default="conch.v1.cycle_diff", alias="schema")
    agent: str
    one: int
    other: int
    rows: tuple[DiffRow, ...]
    """In the order of the cycle: prompt, decision, outcome, scores, needs, total."""


class ReplayedScore(View):
    """One component of a replayed cycle."""

    component: str
    scorer: str
    recorded: float | None
    """The score that the act has; None: none."""
    now: float | None
    """The score that the rules of now give the act as it was; None: none."""
    replayed: float | None
    """The score of the new reply, of which nothing was executed; None: not applicable, or it could not be made."""
    why: str
    """Explanation of the score of the new reply, else of that of now."""


class CycleReplay(View):
    """A recorded prompt that was asked again, as `conch cycle replay --json` prints it. Nothing was executed."""

    schema_: Literal["conch.v1.cycle_replay"] = Field(default="conch.v1.cycle_replay", alias="schema")
    agent: str
    cycle: int
    prompt: Literal["snapshot", "sent"]
    """`snapshot`: prompt and state as they were kept. `sent`: the text alone."""
    mind: str
    model: str
    seed: int
    recorded_raw: str
    recorded_action: Action
    raw: str
    action: Action
    ms: float
    scores: tuple[ReplayedScore, ...]


def cycle_diff(
    one: ExperienceRecorded, other: ExperienceRecorded, parts: tuple[Mapping[str, int], Mapping[str, int]]
) -> CycleDiff:
    """`conch.v1.cycle_diff`. `parts`: the tokens of each section of both prompts, empty where they are not known."""
    rows = [
        *_rows("prompt", *parts),
        *_rows("decision", _decision(one), _decision(other)),
        *_rows("outcome", _outcome(one), _outcome(other)),
        *_rows("scores", _scores(one), _scores(other)),
        *_rows("needs", _needs(one), _needs(other)),
        *_rows("total", _total(one), _total(other)),
    ]
    return CycleDiff(agent=one.agent, one=one.cycle or 0, other=other.cycle or 0, rows=tuple(rows))


def _rows(
    section: Literal["prompt", "decision", "outcome", "scores", "needs", "total"],
    one: Mapping[str, Shown],
    other: Mapping[str, Shown],
) -> Iterable[DiffRow]:
    names: Sequence[str] = list(dict.fromkeys((*one, *other)))
    for name in names:
        first, second = one.get(name), other.get(name)
        yield DiffRow(section=section, name=name, one=first, other=second, same=first == second)


def _decision(experience: ExperienceRecorded) -> dict[str, Shown]:
    decoding = experience.decoding
    return {
        "prompt": decoding.prompt_sha256[:12] if decoding is not None else None,
        "state": decoding.state_key if decoding is not None else None,
        "model": experience.model,
        "policy": experience.policy,
        "thought": experience.thought[:ACTION_WIDTH],
        "reply": experience.raw[:ACTION_WIDTH],
        "action": action_words(experience.action, ACTION_WIDTH),
        "valid": "yes" if experience.action.valid else "no",
    }


def _outcome(experience: ExperienceRecorded) -> dict[str, Shown]:
    outcome = experience.outcome
    found: dict[str, Shown] = {"status": outcome.status, "exit status": outcome.exit_code}
    found |= {"error": outcome.error, "output": outcome.output.text[:ACTION_WIDTH]}
    return found | {f"goal {check.goal}": f"{check.outcome}, {check.measure:g}" for check in experience.goals}


def _scores(experience: ExperienceRecorded) -> dict[str, Shown]:
    return {score.component: score.status if score.value is None else score.value for score in experience.scores}


def _needs(experience: ExperienceRecorded) -> dict[str, Shown]:
    before, after = experience.needs_before or {}, experience.needs_after or {}
    return {need: f"{level:.3f} → {after.get(need, level):.3f}" for need, level in before.items()}


def _total(experience: ExperienceRecorded) -> dict[str, Shown]:
    return {"total": experience.total, "coverage": experience.coverage, "weights": experience.weights}
