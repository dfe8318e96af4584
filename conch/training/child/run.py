"""One job from its line to its adapter."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from conch.errors import UsageError
from conch.training import CONFIG, WEIGHTS
from conch.training.child.adapter_files import (
    load_tensors,
    write_adapter,
)
from conch.training.child.base import BaseModel, load_base
from conch.training.child.failures import TrainingRefusedError
from conch.training.child.forecast import mib_of, minutes_of, seconds_a_token
from conch.training.child.limits import peak_mib
from conch.training.child.pipe import ParentPipe
from conch.training.child.render import RenderedRow, Renderer, fitting
from conch.training.child.replies import GreedyDecoder, base_rows, probe_replies
from conch.training.child.resume import StageDirectory, WorkDirectory
from conch.training.child.rows import SnapshotRows, TrainingRow, read_rows, refuse_untrainable, replayed
from conch.training.child.trainers import StageRows, make_trainer, settle, steps_of, trained_shape, with_lora
from conch.training.child.watch import EvaluationMark, StageLimits, Stop, TrainingWatch, best_of, marks_of, stop_of
from conch.training.job import RowCounts, TrainingForecast, TrainingJob, TrainingResult
from conch_schemas import JsonObject, TrainingMethod

_PASSES: Final[dict[TrainingMethod, float]] = {"sft": 1.0, "dpo": 1.35, "kto": 2.4, "grpo": 8.0}
"""What a token costs, as a multiple of SFT: with the passes of the reference, and the decoding of GRPO."""


@dataclass(frozen=True)
class PreparedRows:
    """All rows of a job as tokens, and their counts."""

    stage: StageRows
    format_stage: StageRows | None
    counts: RowCounts
    snapshots: tuple[str, ...]
    """Digests of the snapshots."""


def train(job: TrainingJob, pipe: ParentPipe, threads: int) -> None:
    """Train, and report to the pipe; the last report is the result, or of a dry run the forecast.

    Raises ConchError for a job that cannot be trained; OSError, MemoryError and RuntimeError as the machine does.
    """
    begun = time.monotonic()
    if job.out.exists():
        raise UsageError(f"there is an adapter at {job.out} already: name another directory")
    new = read_rows(job.snapshot, job.method)
    refuse_untrainable(new.train, job.method, job.snapshot)
    settle(job.seed, threads)
    base = load_base(job)
    model = with_lora(base.model, job.lora, job.method, job.seed)
    decoder = GreedyDecoder(model, base.tokenizer)
    rows = _prepared(job, new, base, decoder)
    if job.dry_run:
        pipe.report(_forecast(job, base, model, rows))
        return
    work = WorkDirectory(job)
    job.out.parent.mkdir(parents=True, exist_ok=True)
    resumed = work.open(job, base.digests, rows.snapshots)
    if rows.format_stage is not None:
        _Stage(job, "sft", rows.format_stage, work.stage("format"), pipe).run(model, base.tokenizer)
    stage = _Stage(job, job.method, rows.stage, work.stage(job.method), pipe)
    figures, stopped = stage.run(model, base.tokenizer)
    prompts = [row.row.prompt for row in (*rows.stage.eval, *rows.stage.train)]
    probes = probe_replies(decoder, prompts, job.probes, job.probe_tokens)
    files = write_adapter(model, base.digests, job.out)
    work.remove()
    pipe.report(
        TrainingResult(
            round=job.round,
            method=job.method,
            digests=base.digests,
            snapshot_digest=new.manifest.digest,
            weights_sha256=files[WEIGHTS],
            config_sha256=files[CONFIG],
            lora=trained_shape(model),
            counts=rows.counts,
            figures=figures,
            stopped=stopped,
            resumed=resumed,
            probes=probes,
            seconds=time.monotonic() - begun,
            peak_mib=peak_mib(),
        )
    )


def _prepared(job: TrainingJob, new: SnapshotRows, base: BaseModel, decoder: GreedyDecoder) -> PreparedRows:
    """Raises TrainingRefusedError where all rows are too long."""
    renderer, most = Renderer(base.tokenizer), min(job.max_tokens, base.context)
    room = job.reply_tokens if job.method == "grpo" else 0
    digests, again, held_back = [new.manifest.digest], list[TrainingRow](), 0
    for source in job.replay:
        taken, held = replayed(source, job.method, new, job.seed)
        again, held_back = again + taken, held_back + held
        digests.append(read_rows(source.snapshot, job.method).manifest.digest)
    own = base_rows(decoder, job.base_replies, len(new.train), job.reply_tokens) if job.method == "sft" else []
    train = _rendered(renderer, (*new.train, *again, *own))
    fits = fitting(train, most, room)
    if not fits:
        raise TrainingRefusedError(
            f"all {len(train)} rows have more than {most} tokens, the longest {max(row.longest for row in train)}: "
            "raise the limit, or take a base with a longer context"
        )
    measured = fitting(_rendered(renderer, new.eval[: job.eval_rows]), most, room)
    too_long, format_stage = len(train) - len(fits), None
    if job.format_snapshot is not None and job.method != "sft":
        first = read_rows(job.format_snapshot, "sft")
        refuse_untrainable(first.train, "sft", job.format_snapshot)
        digests.append(first.manifest.digest)
        shown = _rendered(renderer, first.train)
        format_stage = StageRows(fitting(shown, most), fitting(_rendered(renderer, first.eval[: job.eval_rows]), most))
        too_long += len(shown) - len(format_stage.train)
    counts = RowCounts(
        rows=len(fits),
        new_rows=len(new.train),
        replayed=len(again),
        base_replies=len(own),
        format_rows=len(format_stage.train) if format_stage else 0,
        eval_rows=len(measured),
        too_long=too_long,
        held_back=held_back,
        tokens=sum(row.tokens for row in fits),
        longest=max(row.longest for row in fits),
    )
    return PreparedRows(StageRows(fits, measured), format_stage, counts, tuple(digests))


def _rendered(renderer: Renderer, rows: Sequence[TrainingRow]) -> list[RenderedRow]:
    return [renderer.row(row) for row in rows]


def _forecast(job: TrainingJob, base: BaseModel, model: Any, rows: PreparedRows) -> TrainingForecast:
    rate, tokens = seconds_a_token(model, rows.stage.train, job.batch)
    padded = sum(max(row.longest, rows.counts.longest // 2) for row in rows.stage.train)
    return TrainingForecast(
        round=job.round,
        method=job.method,
        digests=base.digests,
        counts=rows.counts,
        steps=steps_of(job, job.method, len(rows.stage.train)),
        minutes=minutes_of(max(padded, rows.counts.tokens), job.epochs, rate, _PASSES[job.method]),
        mib=mib_of(),
        how=f"one batch of the {min(job.batch, len(rows.stage.train))} longest rows, {tokens} tokens, was measured at "
        f"{1 / rate:,.0f} tokens/s with {_threads()} threads, and scaled to all rows and epochs",
    )


def _threads() -> int:
    import torch

    return int(torch.get_num_threads())


class _Stage:
    """A part of a job that one trainer does."""

    def __init__(
        self, job: TrainingJob, method: TrainingMethod, rows: StageRows, folder: StageDirectory, pipe: ParentPipe
    ) -> None:
        self._job, self._method, self._rows, self._folder, self._pipe = job, method, rows, folder, pipe
        self._steps = steps_of(job, method, len(rows.train))
        every = math.ceil(self._steps / job.evaluations)
        self._limits = StageLimits(kl=job.most_kl, patience=job.patience, every=every)

    def run(self, model: Any, tokenizer: Any) -> tuple[dict[str, float], Stop]:
        """Train the adapter, from a checkpoint where there is one: (figures, why it ended early)."""
        if (over := self._folder.ended()) is not None:
            load_tensors(model, self._folder.best)
            return over["figures"], over["stopped"]
        tokens = sum(row.tokens for row in self._rows.train) / len(self._rows.train) * self._job.batch
        watch = TrainingWatch(
            self._method,
            self._limits,
            self._folder,
            self._rows.eval or self._rows.train,
            tokens * self._job.accumulation,
            self._pipe.report,
            evaluates=bool(self._rows.eval) and self._method != "grpo",
        )
        trainer = make_trainer(self._job, self._method, model, tokenizer, self._rows, self._folder.path, self._pipe)
        before = trainer.evaluate().get("eval_loss") if watch.evaluates else None
        trainer.add_callback(watch)
        log, stopped = self._trained(trainer, watch)
        best = best_of(marks_of(log), self._limits.kl)
        assert best is not None  # the watch refuses a first evaluation above the cap
        load_tensors(model, self._folder.best)
        if "ref" in model.peft_config:
            model.delete_adapter("ref")
        figures = _figures(log, best, before)
        self._folder.end({"figures": figures, "stopped": stopped})
        return figures, stopped

    def _trained(self, trainer: Any, watch: TrainingWatch) -> tuple[list[JsonObject], Stop]:
        """(the trainer's log, why it ended early). A checkpoint at which it had ended is not trained on."""
        found = self._folder.checkpoint()
        if found is not None:
            state = json.loads((found / "trainer_state.json").read_text(encoding="utf-8"))
            log: list[JsonObject] = state["log_history"]
            ended = state["global_step"] >= self._steps
            stop = "" if ended else stop_of(marks_of(log), self._limits)
            if ended or stop:
                return log, stop
        trainer.train(resume_from_checkpoint=str(found) if found is not None else None)
        return list(trainer.state.log_history), watch.stopped


def _figures(log: Sequence[JsonObject], best: EvaluationMark, before: float | None) -> dict[str, float]:
    """What a result says of a stage: at the step whose weights are kept, and what the trainer logged up to it."""
    upto = [one for one in log if one["step"] <= best.step]
    found: dict[str, float | None] = {
        "steps": max(one["step"] for one in log),
        "best_step": best.step,
        "loss": _last(upto, "loss"),
        "eval_loss_before": before,
        "eval_loss": best.loss,
        "kl": best.kl,
        "margin": _last(upto, "eval_rewards/margins", "rewards/margins"),
        "reward": _last(upto, "reward"),
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def _last(log: Sequence[JsonObject], *names: str) -> float | None:
    for name in names:
        for one in reversed(log):
            if name in one:
                return float(one[name])
    return None
