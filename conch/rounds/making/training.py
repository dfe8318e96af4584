"""One attempt to train: starts the child, publishes its progress, puts the adapter on the shelf."""

from __future__ import annotations

import errno
import math
import shutil
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from conch.config import Settings
from conch.errors import ConchError, TrainingError
from conch.home import Home, write_whole
from conch.log import get_logger
from conch.rounds.log import LineageLog
from conch.rounds.making.child import ScoreReplies, run_child
from conch.rounds.making.plan import RoundPlan, job_of, round_folder
from conch.training import (
    AdapterIdentity,
    AdapterShelf,
    TrainingFailure,
    TrainingForecast,
    TrainingJob,
    TrainingResult,
    TrainingStep,
    decode_training_report,
)
from conch_schemas import TrainingFailed, TrainingFinished, TrainingProgressed, TrainingStarted

log = get_logger(__name__)

MOST_ATTEMPTS: Final = 2
"""Attempts of one plan: what failed or was killed twice fails."""
PROGRESS_SECONDS: Final = 2.0
"""Least seconds between two events of progress."""
LOG: Final = "child.log"
RESULT: Final = "result.json"
"""The child's result, kept until its adapter is on the shelf: a kill in between trains nothing twice."""
PROBED_WITH: Final = "train"
"""Kind under which the replies are recorded that the child itself made, in 32 bits."""


class AttemptOutcome(BaseModel):
    """How an attempt ended."""

    model_config = ConfigDict(frozen=True)

    finished: TrainingFinished | None = None
    failed: TrainingFailed | None = None


async def attempt_round(
    record: LineageLog,
    plan: RoundPlan,
    settings: Settings,
    home: Home,
    *,
    score: ScoreReplies | None = None,
    command: Sequence[str] | None = None,
) -> AttemptOutcome:
    """Begin the round, or begin it again where its last attempt was ended or may be repeated.

    The child goes on from its last checkpoint where there is one. Cancelled, it is killed, and nothing is published:
    the next attempt goes on. Raises BusError.
    """
    known = record.state.of(plan.round)
    attempt = 1 if known is None else known.started.attempt + (known.phase in ("training", "failed"))
    file = round_folder(home, plan.round) / RESULT
    if known is not None and known.finished is None and known.failed is None and (made := _kept(file)) is not None:
        return await _shelve(record, plan, known.started.attempt, made, home)
    if attempt > last_attempt(plan):
        why = f"it was ended {MOST_ATTEMPTS} times before it had an adapter: conch train run begins it anew"
        return await _fail(record, plan, last_attempt(plan), why, again=False)
    await record.publish(
        TrainingStarted,
        plan.round,
        attempt,
        round=plan.round,
        attempt=attempt,
        method=plan.method,
        generation=plan.generation,
        base=Path(plan.base).name,
        snapshot=plan.snapshot,
        rows=plan.rows,
        seen=plan.seen,
        why=plan.why,
        settings=plan.settings,
    )
    try:
        job = job_of(plan, settings.training, home)
        said = await _trained(record, plan, attempt, job, home, score, command)
        if isinstance(said, TrainingFailure):
            again = said.can_retry and attempt < last_attempt(plan)
            return await _fail(record, plan, attempt, said.reason, again=again)
        write_whole(file, said.encode().decode())
        return await _shelve(record, plan, attempt, said, home)
    except TrainingError as error:
        return await _fail(record, plan, attempt, str(error), again=False)
    except OSError as error:
        return await _fail(record, plan, attempt, disk_sentence(error, home), again=attempt < last_attempt(plan))


async def forecast_round(
    plan: RoundPlan, settings: Settings, home: Home, *, command: Sequence[str] | None = None
) -> TrainingForecast:
    """What a round would take, as a child measures it that trains nothing. Raises TrainingError with its reason where
    it cannot be trained."""
    job = job_of(plan, settings.training, home, dry_run=True)
    async with aclosing(run_child(job, round_folder(home, plan.round) / LOG, command=command)) as reports:
        async for report in reports:
            if isinstance(report, TrainingForecast):
                return report
            if isinstance(report, TrainingFailure):
                raise TrainingError(report.reason)
    raise TrainingError("the training process gave no forecast")


def last_attempt(plan: RoundPlan) -> int:
    """The number of the last attempt that the plan may have."""
    return plan.first_attempt + MOST_ATTEMPTS - 1


def disk_sentence(error: OSError, home: Home) -> str:
    """What is wrong with the disk, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {home.training} is full: make room, then train again"
    return f"{error.filename or home.training} cannot be written: {error.strerror}"


async def _trained(
    record: LineageLog,
    plan: RoundPlan,
    attempt: int,
    job: TrainingJob,
    home: Home,
    score: ScoreReplies | None,
    command: Sequence[str] | None,
) -> TrainingResult | TrainingFailure:
    last, newest, said = -math.inf, None, None
    child = run_child(job, round_folder(home, plan.round) / LOG, score=score, command=command)
    async with aclosing(child) as reports:  # left early, the child has ended before its round goes on
        async for report in reports:
            if isinstance(report, TrainingStep):
                if (bad := _not_finite(report)) is not None:
                    reason = (
                        f"the {bad} is no number at step {report.step} of {report.steps}: "
                        "a lower learning rate may help"
                    )
                    return TrainingFailure(round=plan.round, reason=reason, can_retry=False)
                newest = report
                if _is_evaluation(report) or time.monotonic() - last >= PROGRESS_SECONDS:
                    await _progress(record, plan, attempt, report)
                    last, said = time.monotonic(), report
            elif isinstance(report, TrainingResult | TrainingFailure):
                if newest is not None and newest is not said:
                    await _progress(record, plan, attempt, newest)
                return report
    return TrainingFailure(round=plan.round, reason="the training process wrote no result", can_retry=True)


async def _shelve(
    record: LineageLog, plan: RoundPlan, attempt: int, result: TrainingResult, home: Home
) -> AttemptOutcome:
    """Check the adapter, put it on the shelf and publish it; what is no adapter is a failure."""
    folder = round_folder(home, plan.round)
    identity = AdapterIdentity(
        base=Path(plan.base).name,
        base_digest=result.digests.base,
        tokenizer_digest=result.digests.tokenizer,
        template_digest=result.digests.template,
        agentuid=plan.agentuid,
        generation=plan.generation,
        round=plan.round,
        snapshot=plan.snapshot,
        method=plan.method,
    )
    shelf = AdapterShelf(home.adapters)
    try:
        found = shelf.put(folder / "adapter", identity)
        shelf.record_probe(found.digest, PROBED_WITH, result.probes)
    except OSError as error:
        return await _fail(record, plan, attempt, disk_sentence(error, home), again=attempt < last_attempt(plan))
    except ConchError as error:
        (folder / RESULT).unlink(missing_ok=True)
        return await _fail(record, plan, attempt, str(error), again=False)
    finished = await record.publish(
        TrainingFinished,
        plan.round,
        attempt,
        round=plan.round,
        attempt=attempt,
        adapter=found.digest,
        bytes=sum(file.stat().st_size for file in found.folder.iterdir()),
        seconds=result.seconds,
        tokens=result.counts.tokens,
        figures={name: value for name, value in result.figures.items() if math.isfinite(value)}
        | {"peak_mib": result.peak_mib},
    )
    shutil.rmtree(folder / "adapter", ignore_errors=True)
    (folder / RESULT).unlink(missing_ok=True)
    return AttemptOutcome(finished=finished)


async def _fail(record: LineageLog, plan: RoundPlan, attempt: int, why: str, *, again: bool) -> AttemptOutcome:
    log.warning("training.failed", agent_id=plan.agent, round=plan.round[:12], attempt=attempt, error=why)
    failed = await record.publish(
        TrainingFailed, plan.round, attempt, round=plan.round, attempt=attempt, why=why, again=again
    )
    return AttemptOutcome(failed=failed)


async def _progress(record: LineageLog, plan: RoundPlan, attempt: int, step: TrainingStep) -> None:
    await record.publish(
        TrainingProgressed,
        plan.round,
        attempt,
        step.step,
        *(("evaluation",) if _is_evaluation(step) else ()),
        round=plan.round,
        attempt=attempt,
        step=step.step,
        steps=step.steps,
        epoch=float(plan.settings.get("epochs") or 1) * step.step / max(1, step.steps),  # type: ignore[arg-type]
        loss=step.loss,
        eval_loss=step.eval_loss,
        kl=step.kl,
        margin=step.margin,
        grad_norm=step.grad_norm,
        learning_rate=step.learning_rate,
        tokens_per_second=step.tokens_per_second,
        eta=step.seconds_left,
    )


def _is_evaluation(step: TrainingStep) -> bool:
    """Whether it has what an evaluation found. It comes after the step's own report, and is an event of its own."""
    return step.eval_loss is not None or step.kl is not None


def _not_finite(step: TrainingStep) -> str | None:
    """The first figure of a step that is no finite number; None: all are."""
    for name, value in step.model_dump(exclude={"kind", "stage", "step", "steps"}).items():
        if value is not None and not math.isfinite(value):
            return name.replace("_", " ")
    return None


def _kept(file: Path) -> TrainingResult | None:
    try:
        found = decode_training_report(file.read_bytes())
    except (OSError, ConchError, ValidationError):
        return None
    return found if isinstance(found, TrainingResult) else None
