"""Watches a stage as it trains: reports, evaluates, keeps the best weights, and ends it early."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from transformers import TrainerCallback

from conch.training.child.adapter_files import adapter_tensors, save_tensors
from conch.training.child.divergence import kl_to_base
from conch.training.child.failures import TrainingRefusedError
from conch.training.child.render import RenderedRow
from conch.training.child.resume import StageDirectory
from conch.training.job import TrainingStep
from conch_schemas import TrainingMethod

REPORT_SECONDS: Final = 0.5
"""Shortest time between two reports; the first step and an evaluation are reported at once."""
Stop = Literal["", "eval loss", "KL"]
_SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "loss": ("loss",),
    "eval_loss": ("eval_loss",),
    "kl": ("conch_kl", "kl"),
    "reward": ("rewards/chosen", "reward"),
    "margin": ("rewards/margins",),
    "grad_norm": ("grad_norm",),
    "learning_rate": ("learning_rate",),
}
"""Fields of a report by the names in TRL's logs."""


@dataclass(frozen=True)
class EvaluationMark:
    """An evaluation."""

    step: int
    loss: float | None
    """None where there are no rows to evaluate on."""
    kl: float | None


@dataclass(frozen=True)
class StageLimits:
    """When a stage ends early."""

    kl: float
    patience: int
    every: int
    """Steps between two evaluations."""


def best_of(marks: Sequence[EvaluationMark], most_kl: float) -> EvaluationMark | None:
    """The evaluation with the least loss among those within the cap; without losses the last of them. None where none
    is within it."""
    within = [mark for mark in marks if mark.kl is None or mark.kl <= most_kl]
    if not within:
        return None
    measured = [mark for mark in within if mark.loss is not None]
    return min(measured, key=lambda mark: (mark.loss, mark.step)) if measured else within[-1]


def stop_of(marks: Sequence[EvaluationMark], limits: StageLimits) -> Stop:
    """Why training ends after these evaluations; empty where it goes on."""
    if marks[-1].kl is not None and marks[-1].kl > limits.kl:
        return "KL"
    best = best_of(marks, limits.kl)
    if best is not None and best.loss is not None and sum(mark.step > best.step for mark in marks) >= limits.patience:
        return "eval loss"
    return ""


class TrainingWatch(TrainerCallback):  # type: ignore[misc] # transformers has no types here
    """The callback of one stage. Its evaluations are in the trainer's own log, which a checkpoint keeps."""

    def __init__(
        self,
        method: TrainingMethod,
        limits: StageLimits,
        stage: StageDirectory,
        measured: Sequence[RenderedRow],
        tokens: float,
        report: Callable[[TrainingStep], None],
        *,
        evaluates: bool,
    ) -> None:
        self._method, self._limits, self._stage, self._measured = method, limits, stage, measured
        self._tokens, self._report, self.evaluates = tokens, report, evaluates
        self._told = self._begun = time.monotonic()
        self._first = 0
        self.stopped: Stop = ""

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The clock starts, at the step of the checkpoint where there is one."""
        self._begun, self._first = time.monotonic(), state.global_step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Ask for an evaluation and a checkpoint where they are due."""
        if state.global_step % self._limits.every == 0 or state.global_step >= state.max_steps:
            control.should_save = True
            control.should_evaluate = self.evaluates
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, float | None], **_: Any) -> None:
        """Report. Raises TrainingRefusedError where a loss is not finite."""
        for name in ("loss", "grad_norm", "eval_loss"):
            if not math.isfinite(value := logs.get(name) or 0.0):
                raise TrainingRefusedError(
                    f"the {name.replace('_', ' ')} is {value} at step {state.global_step} of "
                    f"{state.max_steps}: lower the learning rate, {args.learning_rate:g}"
                )
        now = time.monotonic()
        is_due = now - self._told >= REPORT_SECONDS or state.global_step == self._first + 1
        if "loss" not in logs or not is_due:
            return
        self._told = now
        self._report(self._step(state, logs, now))

    def on_save(self, args: Any, state: Any, control: Any, model: Any, **_: Any) -> Any:
        """After an evaluation and its checkpoint: keep the best weights, decide whether to go on.

        Raises TrainingRefusedError where the first evaluation is above the cap already.
        """
        kl = kl_to_base(model, self._measured)
        marks = marks_of(state.log_history)
        now = [one for one in state.log_history if one["step"] == state.global_step]
        loss = next((one["eval_loss"] for one in now if "eval_loss" in one), None)
        mark = EvaluationMark(state.global_step, loss, kl if kl is not None else _logged_kl(state))
        state.log_history.append({"step": mark.step, "conch_loss": mark.loss, "conch_kl": mark.kl})
        marks.append(mark)
        best = best_of(marks, self._limits.kl)
        if best is None:
            raise TrainingRefusedError(
                f"the KL divergence from the base is {mark.kl:.2f} nats a token at step {mark.step}, above the cap of "
                f"{self._limits.kl:g}: lower the learning rate, or raise the cap"
            )
        if best.step == mark.step:
            save_tensors(adapter_tensors(model), self._stage.best)
        self._report(self._step(state, {"conch_kl": mark.kl, "eval_loss": mark.loss}, time.monotonic()))
        self.stopped = stop_of(marks, self._limits) if state.global_step < state.max_steps else ""
        if self.stopped:
            control.should_training_stop = True
        state.save_to_json(str(self._stage.state_file(state.global_step)))
        self._stage.seal(state.global_step)
        return control

    def _step(self, state: Any, logs: Mapping[str, float | None], now: float) -> TrainingStep:
        done, seconds = state.global_step - self._first, max(now - self._begun, 1e-6)
        found = {
            field: next((value for name in names if (value := logs.get(name)) is not None), None)
            for field, names in _SOURCES.items()
        }
        return TrainingStep(
            stage=self._method,
            step=state.global_step,
            steps=state.max_steps,
            tokens_per_second=done * self._tokens / seconds if done else None,
            seconds_left=(state.max_steps - state.global_step) * seconds / done if done else None,
            **found,
        )


def marks_of(log: Sequence[Mapping[str, float | None]]) -> list[EvaluationMark]:
    """The evaluations in a trainer's log."""
    found = [one for one in log if "conch_kl" in one]
    return [EvaluationMark(int(one["step"] or 0), one["conch_loss"], one["conch_kl"]) for one in found]


def _logged_kl(state: Any) -> float | None:
    """The divergence that GRPO's trainer has measured itself."""
    return next((float(one["kl"]) for one in reversed(state.log_history) if "kl" in one), None)
