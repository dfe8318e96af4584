"""The plan of a round: all that it is made of, frozen in a file before the first step, so that it can go on later."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final, Self

import psutil
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from conch.config import TrainingSettings
from conch.errors import CheckError, TrainingError
from conch.home import Home, write_whole
from conch.training import LoraShape, ReplaySource, TrainingJob
from conch_schemas import TrainingMethod, TrainingReason

PLAN: Final = "plan.json"
DATA: Final = "data"
"""The directory of the snapshots in a home, as `conch data` has it."""
FREE_SHARE: Final = 0.75
"""Share of the free memory that a child may have where no limit is set."""
BASE_SHARE: Final = 1 / 3
"""Share of `training.replay` that are the base's own answers; the rest are rows of the round before."""
ROWS_AN_EVALUATION: Final = 16
"""Rows for which there is one evaluation: it decodes and scores the whole eval set, which takes longer than training on
a row."""
MOST_EVALUATIONS: Final = 8
ATTENTION: Final = ("q_proj", "k_proj", "v_proj", "o_proj")


class RoundPlan(BaseModel):
    """What one round is made of."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    round: str
    """Digest of the fields that decide on the adapter."""
    agent: str
    agentuid: str
    generation: int
    """The one that it would become."""
    method: TrainingMethod
    method_why: str
    """Why this method, in one sentence."""
    why: TrainingReason
    first_attempt: int = 1
    """Above 1 where the same round had failed and was asked for again."""
    base: str
    """Path of the base model."""
    base_digest: str | None = None
    """What the base must be, as the adapter that acts has it; None: no adapter acts."""
    snapshot: str
    """Digest of the data set's manifest."""
    snapshot_name: str
    """Of its directory."""
    format_snapshot_name: str | None = None
    """Of the data set of SFT that teaches the format first."""
    rows: int
    eval_rows: int
    seen: int
    """Experiences of the lineage when the data set was made."""
    made: tuple[str, ...] = ()
    """Names of the data sets that were not there before: they are removed when no round needs them."""
    states: tuple[str, ...]
    """State keys that are trained on."""
    held_out: int
    """Recorded decisions that the gate has."""
    replay: str | None = None
    """Name of the data set of an earlier round whose rows are trained on again."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Those of training that decide on the adapter."""

    def write(self, home: Home) -> None:
        """Keep it in the round's directory. Raises OSError."""
        folder = round_folder(home, self.round)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(folder / PLAN, self.model_dump_json(indent=1) + "\n")

    @classmethod
    def read(cls, home: Home, round: str) -> Self:
        """The plan of a round. Raises CheckError where there is none, or it is damaged."""
        file = round_folder(home, round) / PLAN
        try:
            return cls.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            raise CheckError(f"there is no plan of the round {round[:12]} in {home.training}") from None
        except (OSError, ValidationError) as error:
            raise CheckError(f"{file} is no plan of a round: begin the round again") from error


def round_folder(home: Home, round: str) -> Path:
    """The directory of a round: its plan, the child's log, the held-out decisions, the evidence of gate and trial."""
    return home.training / round[:16]


def data_folder(home: Home) -> Path:
    """The directory of the home's data sets, those of rounds among them."""
    return home.path / DATA


def round_digest(
    agentuid: str, method: str, base: str, snapshots: list[str | None], settings: dict[str, JsonValue]
) -> str:
    """SHA-256, hexadecimal, of what decides on the adapter: the same again is the same round."""
    content: dict[str, object] = {
        "agentuid": agentuid,
        "method": method,
        "base": base,
        "snapshots": snapshots,
        "settings": settings,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def deciding_settings(settings: TrainingSettings) -> dict[str, JsonValue]:
    """The settings of training that decide on the adapter."""
    names = {"lora", "learning_rate", "epochs", "batch_size", "gradient_accumulation", "replay"}
    found: dict[str, JsonValue] = settings.model_dump(mode="json", include=names)
    return found | {"kl": settings.gate.kl}


def job_of(plan: RoundPlan, settings: TrainingSettings, home: Home, *, dry_run: bool = False) -> TrainingJob:
    """The job of the training child. Raises TrainingError where a data set is gone."""
    snapshot = _data_set(home, plan.snapshot_name)
    rest = settings.replay * (1 - BASE_SHARE)
    replay = data_folder(home) / plan.replay if plan.replay is not None else None
    formatting = plan.format_snapshot_name
    return TrainingJob(
        round=plan.round,
        method=plan.method,
        snapshot=snapshot,
        replay=(ReplaySource(snapshot=replay, share=rest),) if replay is not None and replay.is_dir() and rest else (),
        format_snapshot=None if formatting is None else _data_set(home, formatting),
        base=Path(plan.base),
        base_digest=plan.base_digest,
        out=round_folder(home, plan.round) / "adapter",
        lora=LoraShape(
            r=settings.lora.r,
            alpha=settings.lora.alpha,
            dropout=settings.lora.dropout,
            targets=ATTENTION if settings.lora.targets == "attention" else (),
        ),
        learning_rate=settings.learning_rate,
        epochs=float(settings.epochs),
        batch=settings.batch_size,
        accumulation=settings.gradient_accumulation,
        base_replies=settings.replay * BASE_SHARE,
        evaluations=min(MOST_EVALUATIONS, max(2, plan.rows // ROWS_AN_EVALUATION)),
        kl_cap=settings.gate.kl,
        memory_mib=settings.memory_mib or _most_memory(),
        dry_run=dry_run,
    )


def _data_set(home: Home, name: str) -> Path:
    found = data_folder(home) / name
    if not found.is_dir():
        raise TrainingError(f"the data set {name} of the round is no longer in {found.parent}: begin another round")
    return found


def _most_memory() -> int:
    return max(256, int(psutil.virtual_memory().available * FREE_SHARE / 2**20))
