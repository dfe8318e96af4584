"""The views of a lineage: its rounds, gates, trials, generations and moves, for the Training page and the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, JsonValue

from conch.training import LineagePhase, LineageState, TrainingRound, after, lineage_of
from conch.views.base import View
from conch.views.life.trend import SHOWN_SURE
from conch.views.training.gate_decisions import GateDecision
from conch.views.training.learning_curve import BASE_ALONE, LearningCurve, learning_curve
from conch_schemas import (
    AdapterGated,
    AdapterPromoted,
    AdapterRolledBack,
    AdapterTried,
    GateCondition,
    TrainingProgressed,
    TrainingStarted,
)

if TYPE_CHECKING:
    from conch.data import Manifest
    from conch.experience import AdapterAct, ExperienceReader
    from conch.training import ProbeLine

SHORT: Final = 12
"""Digits of a digest in words."""
_FIGURES: Final = ("loss", "eval_loss", "kl", "margin", "grad_norm", "learning_rate", "tokens_per_second")

GenerationRole = Literal["acts", "acted", "on trial", "not tried", "refused", "rolled back", "unknown"]
"""What an adapter is in its lineage. `acted`: a later one was promoted. `unknown`: acts name it, no round made it."""


class LineagePoint(View):
    """How far a round was at a step. A figure is None where the method has none."""

    step: int
    loss: float | None
    eval_loss: float | None
    kl: float | None
    """Divergence to the base, nats a token."""
    margin: float | None
    """Mean of chosen minus rejected of preference methods."""
    grad_norm: float | None
    learning_rate: float | None
    tokens_per_second: float | None


class LineageGate(View):
    """The gate's table of a round."""

    verdict: Literal["passed", "refused", "inconclusive"]
    number: int
    """How many gates the lineage has had with this one."""
    alpha: float
    """The share of the error rate that it spends."""
    pairs: int
    difference: float | None
    bound: float | None
    """Lower bound of the difference at 1 - alpha."""
    evidence: str
    """SHA-256 over the samples."""
    conditions: tuple[GateCondition, ...]


class LineageTrial(View):
    """A trial of a candidate: as it stands, or its outcome."""

    stage: Literal["shadow", "canary"]
    verdict: Literal["better", "worse", "equivalent", "inconclusive"] | None
    """None: it runs."""
    since: int
    """The first cycle of the trial."""
    pairs: int
    difference: float | None
    low: float | None
    high: float | None
    why: str


class LineageData(View):
    """The data set of a round."""

    snapshot: str
    """Digest of its manifest."""
    name: str | None
    """Its name below `data/` of the home; None: it is not there."""
    format: str | None
    rows: int
    replay_rows: int
    splits: dict[str, int]
    left_out: dict[str, int]
    """Reason -> how many rows."""


class LineageReply(View):
    """A prompt with the greedy replies before and after the round."""

    prompt: str
    """Its last message."""
    before: str
    """Reply of the base alone."""
    after: str
    """Reply under the adapter."""


class LineageRound(View):
    """A round in a line."""

    round: str
    number: int
    """Counted from the lineage's first known round, 1."""
    attempt: int
    method: str
    generation: int
    """The one that it would become."""
    started: str
    phase: LineagePhase
    adapter: str | None
    rows: int
    step: int
    steps: int
    eta: float | None
    """Seconds that it will still take; None where it does not train."""
    loss: float | None
    """The last one."""
    seconds: float | None
    """That it took; None: it has not ended."""
    gate: Literal["passed", "refused", "inconclusive"] | None
    trial: str
    """Stage and outcome of its last trial; empty: there was none."""
    why: str
    """Why it ended as it did, in a sentence; empty while it goes on."""


class LineageDetail(View):
    """A round in whole."""

    summary: LineageRound
    base: str
    why: Literal["schedule", "person"]
    """What began it."""
    settings: dict[str, JsonValue]
    figures: dict[str, float]
    """Last values that the training process gave."""
    curve: tuple[LineagePoint, ...]
    gate: LineageGate | None
    trials: tuple[LineageTrial, ...]
    """In the order of their beginnings."""
    data: LineageData
    engine: str
    """Kind of the engine that gave the replies; empty: there are none."""
    replies: tuple[LineageReply, ...]
    decisions: tuple[GateDecision, ...]
    """Of the gate: those that gained most, then those that lost most."""


class LineageGeneration(View):
    """An adapter with what its acts earned, or the base alone."""

    adapter: str | None
    """Digest; None: the base alone."""
    generation: int | None
    """None: no round of the lineage made it."""
    role: GenerationRole
    acts: int
    """Of the acts that were looked at."""
    mean: float | None
    """Mean total of these acts; None: there are none."""
    low: float | None
    """The ends of its 95 % interval, taking acts for independent; None of fewer than two."""
    high: float | None
    first: int | None
    """Cycle of the first of these acts."""
    last: int | None
    round: str | None
    """The round that made it."""


class LineageMove(View):
    """A move of the pointer: a promotion or a rollback."""

    move: int
    kind: Literal["promoted", "rolled back"]
    time: str
    adapter: str
    """The adapter that was promoted, or taken back."""
    acts: str | None
    """The adapter that acts from then on; None: the base alone."""
    generation: int
    """The generation that acts from then on."""
    by: str
    """`trial` or `person`; of a rollback its trigger."""
    why: str
    evidence: str
    """Id of the event that allowed a promotion."""
    cycle: int | None
    """The first known cycle after it; None: none of those that were looked at."""


class LineageShown(View):
    """A lineage, as the Training page and `GET /lineage` show it."""

    schema_: Literal["conch.v1.lineage"] = Field(default="conch.v1.lineage", alias="schema")
    agent: str
    enabled: bool
    """`training.enabled`: rounds begin by themselves."""
    phase: LineagePhase
    adapter: str | None
    """The one that acts; None: the base alone."""
    generation: int
    previous: str | None
    """What acted before the last move."""
    move: int
    refusals: int
    """Rounds in a row, up to the newest one, whose adapter was refused."""
    failures: int
    """Rounds in a row that failed."""
    rounds: tuple[LineageRound, ...]
    """The newest first."""
    round: LineageDetail | None
    """The round that was asked for, else the newest; None: there was none."""
    generations: tuple[LineageGeneration, ...]
    """The newest first, the base last."""
    moves: tuple[LineageMove, ...]
    """The newest first."""
    reward: LearningCurve


def read_lineage(reader: ExperienceReader, agent: str, round: str | None = None) -> LineageState:
    """The state of an agent's lineage by the store, with the curves of the newest round and of the one of this digest.
    Raises StoreError."""
    state = lineage_of(reader.training.walk(agent, progress=False))
    newest = None if state.round is None else state.round.started.round
    for one in {newest, round} - {None}:
        for event in reader.training.of_round(str(one)):
            if isinstance(event, TrainingProgressed):
                state = after(state, event)
    return state


def lineage_shown(
    agent: str,
    state: LineageState,
    acts: Sequence[AdapterAct],
    *,
    enabled: bool,
    round: str | None = None,
    replies: Mapping[str, Sequence[ProbeLine]] | None = None,
    decisions: Sequence[GateDecision] = (),
    data_sets: Sequence[tuple[str, Manifest | None]] = (),
) -> LineageShown:
    """The document of a lineage.

    `acts`: the last ones with the adapter of each; `round`: digest of the round that is shown whole, else the newest;
    `replies`: the probe record of that round's adapter, by engine; `decisions`: of its gate; `data_sets`: (name,
    manifest) of the snapshots in the home.
    """
    numbers = {one.started.round: number for number, one in enumerate(state.rounds, 1)}
    chosen = state.round if round is None else state.of(round)
    lines = {one.started.round: _line(one, numbers[one.started.round]) for one in state.rounds}
    detail = None
    if chosen is not None:
        probed = None if chosen.adapter is None else state.probed.get(chosen.adapter)
        engine = _engine(replies or {}, None if probed is None else probed.engine)
        manifests = {manifest.digest: (name, manifest) for name, manifest in data_sets if manifest is not None}
        detail = _detail(
            chosen,
            lines[chosen.started.round],
            _data(chosen.started, manifests),
            engine,
            [_reply(one) for one in (replies or {}).get(engine, ())],
            decisions,
        )
    return LineageShown(
        agent=agent,
        enabled=enabled,
        phase=state.phase,
        adapter=state.adapter,
        generation=state.generation,
        previous=state.previous,
        move=state.move,
        refusals=state.refusals,
        failures=state.failures,
        rounds=tuple(reversed(lines.values())),
        round=detail,
        generations=tuple(_generations(state, acts)),
        moves=tuple(_move(one, acts) for one in reversed(state.moves)),
        reward=learning_curve(acts, _names(state)),
    )


def trial_words(tried: AdapterTried) -> str:
    """`canary: better`; `canary runs` before its outcome."""
    return f"{tried.stage} runs" if tried.verdict is None else f"{tried.stage}: {tried.verdict}"


def why_ended(one: TrainingRound) -> str:
    """Why a round ended as it did, in a sentence; empty while it goes on."""
    ends = (one.rolled_back, one.promoted, one.refused, None if one.finished is not None else one.failed)
    return next((end.why for end in ends if end is not None), "")


def _line(one: TrainingRound, number: int) -> LineageRound:
    started, point = one.started, one.progress[-1] if one.progress else None
    finished = one.finished
    loss = None if point is None else point.loss
    return LineageRound(
        round=started.round,
        number=number,
        attempt=started.attempt,
        method=started.method,
        generation=started.generation,
        started=started.time.isoformat(),
        phase=one.phase,
        adapter=one.adapter,
        rows=started.rows,
        step=0 if point is None else point.step,
        steps=0 if point is None else point.steps,
        eta=None if point is None or one.phase != "training" else point.eta,
        loss=loss if finished is None else finished.figures.get("loss", loss),
        seconds=None if finished is None else finished.seconds,
        gate=None if one.gated is None else one.gated.verdict,
        trial=trial_words(one.tried[-1]) if one.tried else "",
        why=why_ended(one),
    )


def _detail(
    one: TrainingRound,
    line: LineageRound,
    data: LineageData,
    engine: str,
    replies: Sequence[LineageReply],
    decisions: Sequence[GateDecision],
) -> LineageDetail:
    return LineageDetail(
        summary=line,
        base=one.started.base,
        why=one.started.why,
        settings=one.started.settings,
        figures={} if one.finished is None else one.finished.figures,
        curve=tuple(
            LineagePoint.model_validate({"step": point.step} | {name: getattr(point, name) for name in _FIGURES})
            for point in one.progress
        ),
        gate=None if one.gated is None else _gate(one.gated),
        trials=tuple(_trials(one.tried)),
        data=data,
        engine=engine,
        replies=tuple(replies),
        decisions=tuple(decisions),
    )


def _gate(gated: AdapterGated) -> LineageGate:
    return LineageGate.model_validate({name: getattr(gated, name) for name in LineageGate.model_fields})


def _trials(tried: Sequence[AdapterTried]) -> Iterator[LineageTrial]:
    """One for each stage: its outcome where there is one."""
    last = {one.stage: one for one in tried}
    for one in last.values():
        yield LineageTrial(
            stage=one.stage,
            verdict=one.verdict,
            since=one.cycle_from,
            pairs=one.pairs,
            difference=one.difference,
            low=one.low,
            high=one.high,
            why=one.why,
        )


def _data(started: TrainingStarted, manifests: Mapping[str, tuple[str, Manifest]]) -> LineageData:
    name, manifest = manifests.get(started.snapshot, (None, None))
    return LineageData(
        snapshot=started.snapshot,
        name=name,
        format=None if manifest is None else manifest.format,
        rows=started.rows,
        replay_rows=started.replay_rows,
        splits={} if manifest is None else manifest.splits,
        left_out={} if manifest is None else manifest.left_out,
    )


def _engine(replies: Mapping[str, Sequence[ProbeLine]], probed: str | None) -> str:
    """The engine that proved the adapter last where it has a record, else the first that has one."""
    there = [engine for engine, lines in replies.items() if lines]
    return probed if probed is not None and probed in there else next(iter(there), "")


def _reply(line: ProbeLine) -> LineageReply:
    prompt = line.messages[-1].content if line.messages else ""
    return LineageReply(prompt=prompt, before=line.base, after=line.adapter)


def _generations(state: LineageState, acts: Sequence[AdapterAct]) -> Iterator[LineageGeneration]:
    of: dict[str | None, list[AdapterAct]] = {None: []}
    for one in state.rounds:
        if one.adapter is not None:
            of[one.adapter] = []
    for act in acts:
        of.setdefault(act.adapter, []).append(act)
    made = {one.adapter: one for one in state.rounds if one.adapter is not None}
    rows = [_generation(state, adapter, made.get(adapter or ""), own) for adapter, own in of.items()]
    places = {one.adapter: place for place, one in enumerate(rows)}
    base = rows.pop(0)
    yield from sorted(rows, key=lambda one: -places[one.adapter])
    yield base


def _generation(
    state: LineageState, adapter: str | None, made: TrainingRound | None, acts: Sequence[AdapterAct]
) -> LineageGeneration:
    totals = [act.total for act in acts]
    mean = fmean(totals) if totals else None
    error = SHOWN_SURE * stdev(totals) / sqrt(len(totals)) if len(totals) > 1 else None
    return LineageGeneration(
        adapter=adapter,
        generation=0 if adapter is None else None if made is None else made.started.generation,
        role=_role(state, adapter, made),
        acts=len(acts),
        mean=mean,
        low=None if mean is None or error is None else mean - error,
        high=None if mean is None or error is None else mean + error,
        first=acts[0].cycle if acts else None,
        last=acts[-1].cycle if acts else None,
        round=None if made is None else made.started.round,
    )


def _role(state: LineageState, adapter: str | None, made: TrainingRound | None) -> GenerationRole:
    if adapter == state.adapter:
        return "acts"
    if adapter is None:
        return "acted"
    if made is None:
        return "unknown"
    match made.phase:
        case "refused":
            return "refused"
        case "rolled back":
            return "rolled back"
        case "shadow" | "canary":
            return "on trial"
        case "active":
            return "acted"
        case _:
            return "not tried"


def _move(move: AdapterPromoted | AdapterRolledBack, acts: Sequence[AdapterAct]) -> LineageMove:
    at = move.time.timestamp()
    return LineageMove(
        move=move.move,
        kind="promoted" if isinstance(move, AdapterPromoted) else "rolled back",
        time=move.time.isoformat(),
        adapter=move.adapter,
        acts=move.adapter if isinstance(move, AdapterPromoted) else move.to,
        generation=move.generation,
        by=move.by if isinstance(move, AdapterPromoted) else move.trigger,
        why=move.why,
        evidence=move.evidence if isinstance(move, AdapterPromoted) else "",
        cycle=next((act.cycle for act in acts if act.acted >= at), None),
    )


def _names(state: LineageState) -> dict[str | None, str]:
    """Name of the curve of each adapter."""
    made = {one.adapter: one.started.generation for one in state.rounds if one.adapter is not None}
    return {None: BASE_ALONE} | {
        adapter: f"{generation} · {adapter[:SHORT]}" for adapter, generation in made.items() if adapter is not None
    }
