"""TRL's trainer of each method, with its traps closed.

Left to themselves they train in bf16 with gradient checkpointing, which is slower on a CPU; cut rows at 1,024 tokens;
and replace a loss that is not finite by a mean.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conch.training.child.failures import TrainingRefusedError
from conch.training.child.pipe import ParentPipe
from conch.training.child.render import RenderedRow
from conch.training.job import LoraShape, TrainingJob
from conch_schemas import TrainingMethod

GRPO_BETA: Final = 0.02
"""How much GRPO holds the model to where it began; with 0 its divergence would not be measured."""


@dataclass(frozen=True)
class StageRows:
    """What a stage trains on and is evaluated on."""

    train: Sequence[RenderedRow]
    eval: Sequence[RenderedRow]


def settle(seed: int, threads: int) -> None:
    """All that is drawn and added up from now on follows from the seed."""
    import datasets
    import torch
    import transformers

    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    # It fills new tensors that are written next anyway: 45 % of the time of a step of SFT on a tiny model.
    torch.utils.deterministic.fill_uninitialized_memory = False
    transformers.set_seed(seed)
    transformers.utils.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    logging.getLogger("trl").setLevel(logging.ERROR)


def with_lora(model: Any, shape: LoraShape, method: TrainingMethod, seed: int) -> Any:
    """The model with a new adapter called `default`. Raises TrainingRefusedError for layers that it does not have."""
    import transformers
    from peft import LoraConfig, get_peft_model

    transformers.set_seed(seed)
    config = LoraConfig(
        r=shape.r,
        lora_alpha=shape.alpha,
        lora_dropout=dropout_of(shape, method),
        target_modules=list(shape.targets) or "all-linear",
        bias="none",
        task_type="CAUSAL_LM",
    )
    try:
        return get_peft_model(model, config)
    except ValueError as error:
        raise TrainingRefusedError(f"lora.targets: the base has no such layers: {', '.join(shape.targets)}") from error


def dropout_of(shape: LoraShape, method: TrainingMethod) -> float:
    """The dropout of the adapter's input."""
    return shape.dropout if shape.dropout is not None else 0.05 if method == "sft" else 0.0


def trained_shape(model: Any) -> LoraShape:
    """The adapter as it is, with the names of its layers."""
    about = model.peft_config["default"]
    targets = tuple(sorted(about.target_modules))
    return LoraShape(r=about.r, alpha=about.lora_alpha, dropout=about.lora_dropout, targets=targets)


def steps_of(job: TrainingJob, method: TrainingMethod, rows: int) -> int:
    """Steps of a stage."""
    batches = math.ceil(rows / _prompts(job, method))
    return max(1, math.ceil(math.ceil(batches / job.accumulation) * job.epochs))


def _prompts(job: TrainingJob, method: TrainingMethod) -> int:
    """Rows of a batch. Of KTO at least 2: it compares replies with those of other prompts."""
    if method == "grpo":
        return max(1, job.batch // job.generations)
    return max(2, job.batch) if method == "kto" else job.batch


def make_trainer(
    job: TrainingJob,
    method: TrainingMethod,
    model: Any,
    tokenizer: Any,
    rows: StageRows,
    folder: Path,
    pipe: ParentPipe,
) -> Any:
    """The trainer of a stage; its checkpoints go to `folder`."""
    import trl
    from transformers import PrinterCallback

    made: dict[TrainingMethod, Callable[[], Any]] = {
        "sft": lambda: trl.SFTTrainer(
            model,
            args=trl.SFTConfig(
                **_settings(job, "sft", len(rows.train), folder), max_length=None, completion_only_loss=True
            ),
            train_dataset=_dataset(rows.train, "sft"),
            eval_dataset=_dataset(rows.eval, "sft"),
            processing_class=tokenizer,
        ),
        "dpo": lambda: trl.DPOTrainer(
            model,
            args=trl.DPOConfig(
                **_settings(job, "dpo", len(rows.train), folder),
                max_length=None,
                loss_type=["sigmoid", "sft"],
                beta=job.beta,
                disable_dropout=False,
            ),
            train_dataset=_dataset(rows.train, "dpo"),
            eval_dataset=_dataset(rows.eval, "dpo"),
            processing_class=tokenizer,
        ),
        "kto": lambda: trl.KTOTrainer(
            model,
            args=trl.KTOConfig(
                **_settings(job, "kto", len(rows.train), folder), max_length=None, beta=job.beta, disable_dropout=False
            ),
            train_dataset=_dataset(rows.train, "kto"),
            eval_dataset=_dataset(rows.eval, "kto"),
            processing_class=tokenizer,
        ),
        "grpo": lambda: trl.GRPOTrainer(
            model,
            reward_funcs=[_scored_by(pipe)],
            args=trl.GRPOConfig(
                **_settings(job, "grpo", len(rows.train), folder),
                num_generations=job.generations,
                max_completion_length=job.reply_tokens,
                beta=GRPO_BETA,
            ),
            train_dataset=_dataset(rows.train, "grpo"),
            processing_class=tokenizer,
        ),
    }
    trainer = made[method]()
    trainer.remove_callback(PrinterCallback)
    return trainer


def _settings(job: TrainingJob, method: TrainingMethod, rows: int, folder: Path) -> dict[str, object]:
    import torch

    steps = steps_of(job, method, rows)
    rate = job.rate
    if method == "sft" and job.method != "sft":
        rate = job.format_learning_rate or 2e-4
    batch = job.generations * _prompts(job, method) if method == "grpo" else _prompts(job, method)
    return {
        "output_dir": str(folder),
        "per_device_train_batch_size": batch,
        "per_device_eval_batch_size": batch,
        "gradient_accumulation_steps": job.accumulation,
        "learning_rate": rate,
        "lr_scheduler_type": "cosine",
        "warmup_steps": math.ceil(job.warm_up * steps),
        "weight_decay": 0.0,
        "optim": "adamw_torch",
        "max_steps": steps,
        "seed": job.seed,
        "data_seed": job.seed,
        "use_cpu": not torch.cuda.is_available(),
        "bf16": False,
        "fp16": False,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "eval_strategy": "no",
        "save_strategy": "no",
        "save_total_limit": 2,
        "report_to": [],
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }


def _dataset(rows: Sequence[RenderedRow], method: TrainingMethod) -> Any:
    """The rows in the columns of a trainer; None without rows. SFT gets tokens, the others messages: they render these
    by the same template."""
    from datasets import Dataset

    if not rows:
        return None
    return Dataset.from_list([_columns(row, method) for row in rows])


def _columns(row: RenderedRow, method: TrainingMethod) -> dict[str, object]:
    if method == "sft":
        reply = row.replies[0]
        return {"input_ids": [*row.prompt, *reply], "completion_mask": [0] * len(row.prompt) + [1] * len(reply)}
    said = [[{"role": "assistant", "content": text}] for text in row.row.replies]
    if method == "dpo":
        return {"prompt": row.row.prompt, "chosen": said[0], "rejected": said[1]}
    if method == "kto":
        return {"prompt": row.row.prompt, "completion": said[0], "label": row.row.label}
    return {"prompt": row.row.prompt, "row_id": row.row.row_id}


def _scored_by(pipe: ParentPipe) -> Callable[..., list[float | None]]:
    """A reward function that asks the parent, which executes the replies in forks."""

    def parent(completions: Sequence[Sequence[dict[str, str]]], row_id: Sequence[str], **_: Any) -> list[float | None]:
        return list(pipe.scores(row_id, [said[0]["content"] for said in completions]))

    return parent
