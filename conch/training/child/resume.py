"""What a killed child leaves beside the adapter's directory, and what of it a second one goes on from.

The directory `.NAME.work` holds `job.json`, the record of what is trained, and of each stage the checkpoints of
transformers' trainer, its best weights and, when it is over, `over.json`. A checkpoint counts once its `whole.json` has
the digests of all its files: the trainer writes them in place.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from conch.training.job import BaseDigests, TrainingJob
from conch_schemas import JsonObject

RECORD: Final = "job.json"
WHOLE: Final = "whole.json"
OVER: Final = "over.json"
_CHECKPOINT: Final = "checkpoint-"


class WorkDirectory:
    """The work of one job."""

    def __init__(self, job: TrainingJob) -> None:
        self.path = job.out.with_name(f".{job.out.name}.work")

    def open(self, job: TrainingJob, digests: BaseDigests, snapshots: Sequence[str]) -> bool:
        """Make it; whether the work of a killed child on the same job, base and snapshots is there. Other work is
        removed."""
        record = json.dumps([json.loads(job.encode()), json.loads(digests.encode()), list(snapshots)]).encode()
        file = self.path / RECORD
        if file.is_file() and file.read_bytes() == record:
            return any(self.path.glob(f"*/{_CHECKPOINT}*/{WHOLE}")) or any(self.path.glob(f"*/{OVER}"))
        self.remove()
        self.path.mkdir(parents=True)
        _write(file, record)
        return False

    def stage(self, name: str) -> StageDirectory:
        """The directory of a stage."""
        return StageDirectory(self.path / name)

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.path, ignore_errors=True)


class StageDirectory:
    """The files of one stage."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.best = path / "best.safetensors"
        """Weights at the best evaluation."""
        path.mkdir(exist_ok=True)

    def state_file(self, step: int) -> Path:
        """The trainer's own state in the checkpoint of a step."""
        return self.path / f"{_CHECKPOINT}{step}" / "trainer_state.json"

    def seal(self, step: int) -> None:
        """The checkpoint of this step is whole. Raises OSError."""
        folder = self.path / f"{_CHECKPOINT}{step}"
        _write(folder / WHOLE, json.dumps(_digests(folder)).encode())

    def end(self, document: JsonObject) -> None:
        """The stage is over: its best weights are its result, and this document says what it found. Raises OSError."""
        _write(self.path / OVER, json.dumps(document).encode())

    def ended(self) -> JsonObject | None:
        """What a stage that is over has found; None where it is not over."""
        file = self.path / OVER
        found: JsonObject | None = json.loads(file.read_bytes()) if file.is_file() else None
        return found

    def checkpoint(self) -> Path | None:
        """The newest whole checkpoint, or None. All others are removed."""
        found = None
        for folder in sorted(self.path.glob(f"{_CHECKPOINT}*"), key=lambda one: -_step(one)):
            if found is None and _is_whole(folder):
                found = folder
            else:
                shutil.rmtree(folder)
        return found


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix(_CHECKPOINT))


def _is_whole(folder: Path) -> bool:
    file = folder / WHOLE
    try:
        return file.is_file() and json.loads(file.read_bytes()) == _digests(folder)
    except ValueError:
        return False


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != WHOLE)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
