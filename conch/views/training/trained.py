"""The views of what people do with adapters: `conch train run | promote | rollback | stop | prove | diff`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from conch.training import LineagePhase, LineageState, ProbeLine, TrainingRound
from conch.views.base import View


class TrainForecast(View):
    """What a round would be made of, as `conch train run --dry-run --json` prints it."""

    schema_: Literal["conch.v1.train_forecast"] = Field(default="conch.v1.train_forecast", alias="schema")
    agent: str
    round: str
    method: str
    method_why: str
    """Why this method, in one sentence."""
    base: str
    generation: int
    rows: int
    eval_rows: int
    held_out: int
    """Recorded decisions that the gate would have."""
    tokens: int
    too_long: int
    """Rows that would be left out, as they have too many tokens."""
    steps: int
    minutes: float
    mib: float
    """Peak memory."""


class TrainedRound(View):
    """A round after `conch train run`, `stop`, or the move that a person asked for."""

    schema_: Literal["conch.v1.trained"] = Field(default="conch.v1.trained", alias="schema")
    agent: str
    round: str | None
    """None: the trainer of the run begins it when its data are read."""
    phase: LineagePhase
    method: str | None
    adapter: str | None
    generation: int
    """The generation that acts now."""
    acts: str | None
    """The adapter that acts now; None: the base alone."""
    move: int
    why: str
    """What was done, or why it ended so, in a sentence."""


class TrainProofStep(View):
    """One link of a proof."""

    name: str
    holds: bool | None
    """None: it cannot be said any more, as files were removed."""
    why: str


class TrainProof(View):
    """Which adapter decided a cycle, and why it was allowed to, as `conch train prove --json` prints it."""

    schema_: Literal["conch.v1.train_proof"] = Field(default="conch.v1.train_proof", alias="schema")
    agent: str
    cycle: int
    action_id: str
    adapter: str | None
    """None: the base alone decided."""
    generation: int
    holds: bool
    steps: tuple[TrainProofStep, ...]


class TrainDiffSide(View):
    """One of two adapters that are compared."""

    adapter: str
    generation: int
    phase: LineagePhase
    method: str
    base: str
    rows: int
    snapshot: str
    settings: dict[str, str]
    gate: Literal["passed", "refused", "inconclusive"] | None
    difference: float | None
    """From the adapter that acted then."""
    bound: float | None
    pairs: int
    figures: dict[str, float]


class TrainDiffPrompt(View):
    """A prompt with the greedy replies of the base and of the two."""

    prompt: str
    """Its last message."""
    base: str
    first: str | None
    """None: this adapter was not asked."""
    second: str | None


class TrainDiff(View):
    """Two adapters side by side, as `conch train diff --json` prints them."""

    schema_: Literal["conch.v1.train_diff"] = Field(default="conch.v1.train_diff", alias="schema")
    agent: str
    first: TrainDiffSide
    second: TrainDiffSide
    prompts: tuple[TrainDiffPrompt, ...]


def trained_round(agent: str, state: LineageState, round: TrainingRound | None, why: str) -> TrainedRound:
    """The view of a round as it stands."""
    return TrainedRound(
        agent=agent,
        round=None if round is None else round.started.round,
        phase=state.phase if round is None else round.phase,
        method=None if round is None else round.started.method,
        adapter=None if round is None else round.adapter,
        generation=state.generation,
        acts=state.adapter,
        move=state.move,
        why=why,
    )


def diff_side(round: TrainingRound) -> TrainDiffSide:
    """One side of a comparison; the round has made an adapter."""
    started, gated = round.started, round.gated
    return TrainDiffSide(
        adapter=round.adapter or "",
        generation=started.generation,
        phase=round.phase,
        method=started.method,
        base=started.base,
        rows=started.rows,
        snapshot=started.snapshot,
        settings={name: str(value) for name, value in sorted(started.settings.items())},
        gate=None if gated is None else gated.verdict,
        difference=None if gated is None else gated.difference,
        bound=None if gated is None else gated.bound,
        pairs=0 if gated is None else gated.pairs,
        figures={} if round.finished is None else round.finished.figures,
    )


def diff_prompts(first: Iterable[ProbeLine], second: Iterable[ProbeLine]) -> tuple[TrainDiffPrompt, ...]:
    """The prompts of both records, those that both have first."""
    sides: dict[str, tuple[ProbeLine | None, ProbeLine | None]] = {}
    for one in first:
        sides[_prompt(one)] = one, None
    for one in second:
        sides[_prompt(one)] = sides.get(_prompt(one), (None, None))[0], one
    rows = []
    for prompt, (left, right) in sorted(sides.items(), key=lambda item: None in item[1]):
        base = left or right
        assert base is not None
        rows.append(
            TrainDiffPrompt(
                prompt=prompt,
                base=base.base,
                first=None if left is None else left.adapter,
                second=None if right is None else right.adapter,
            )
        )
    return tuple(rows)


def _prompt(line: ProbeLine) -> str:
    return line.messages[-1].content if line.messages else ""
