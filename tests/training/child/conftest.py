"""A tiny base, snapshots of hand-made rows, and the child as its parent starts it."""

from __future__ import annotations

import io
import subprocess
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Protocol

import pytest
from pydantic import JsonValue

from conch.data import Format, Row, Selection, Split, make_row, write_snapshot
from conch.python_child import environment, python_command
from conch.training import (
    ScoresAsked,
    ScoresGiven,
    TrainingFailure,
    TrainingForecast,
    TrainingJob,
    TrainingResult,
    TrainingStep,
    decode_training_report,
)
from conch.training.child.pipe import ParentPipe
from conch.training.tiny import make_tiny_model

FILES = (
    "tides.csv",
    "kelp.md",
    "crabs.md",
    "notes/birds of the shore.txt",
    "data/stars.csv",
    "worms.txt",
    "shells.md",
    "a.md",
)
SYSTEM = 'Answer with one action: TOOL: filesystem(operation="read", path="FILE"), or DO_NOTHING: reason.'


def prompt_of(file: str, number: int = 0) -> list[dict[str, str]]:
    """A prompt about a file."""
    user = f"{number}: Read the file {file}"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]


def asked(file: str, number: int = 0) -> list[JsonValue]:
    """The same as a column of a row."""
    return [dict(message) for message in prompt_of(file, number)]


def good(file: str) -> str:
    """The right reply to it."""
    return f'TOOL: filesystem(operation="read", path="{file}")'


def said(text: str) -> list[JsonValue]:
    """A reply as messages."""
    return [{"role": "assistant", "content": text}]


def row(format: Format, columns: Mapping[str, JsonValue], state: str, split: Split = "train") -> Row:
    """A row of a state."""
    tier: Any = {"tier": "A"} if format == "dpo" else {}
    return make_row(
        format,
        columns,
        agent="echo",
        action_ids=(),
        state_key=state,
        prompt_hash="",
        split=split,
        **tier,
    )


def rows_of_format(format: Format, numbers: Sequence[int], files: Sequence[str] = FILES) -> list[Row]:
    """Rows of a format: of each file and number one; those of the last file are in eval."""
    found = []
    for number in numbers:
        for file in files:
            prompt, split = asked(file, number), "eval" if file == files[-1] else "train"
            bad = f"I would like to read {file}"
            columns: dict[str, JsonValue] = {"prompt": prompt}
            if format == "sft":
                columns["completion"] = said(good(file))
            elif format == "dpo":
                columns |= {"chosen": said(good(file)), "rejected": said(bad)}
            elif format == "kto":
                columns |= {"completion": said(good(file) if number % 2 else bad), "label": bool(number % 2)}
            found.append(row(format, columns, f"{file} {number}", split))  # type: ignore[arg-type]
    return found


class Snapshot(Protocol):
    """Writes a snapshot of rows: its directory."""

    def __call__(self, format: Format, rows: Iterable[Row], name: str = "new") -> Path: ...


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Writes a snapshot of rows: its directory."""

    def write(format: Format, rows: Iterable[Row], name: str = "new") -> Path:
        return write_snapshot(rows, tmp_path / "data", format, Selection(), name=name)[0]

    return write


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny base, whose tokenizer knows the prompts."""
    prompts = [prompt_of(file, number) for number in range(9) for file in FILES]
    return make_tiny_model(tmp_path_factory.mktemp("tiny") / "base", prompts, map(good, FILES), vocabulary=384, steps=0)


@dataclass
class ChildRun:
    """What a child has said."""

    steps: list[TrainingStep]
    last: TrainingResult | TrainingForecast | TrainingFailure | None
    status: int
    errors: str

    @property
    def result(self) -> TrainingResult:
        """Of a child that has trained."""
        assert isinstance(self.last, TrainingResult), (self.last, self.errors[-2000:])
        return self.last

    @property
    def failure(self) -> TrainingFailure:
        """Of a child that has not."""
        assert isinstance(self.last, TrainingFailure), (self.last, self.errors[-2000:])
        assert self.status == 1
        return self.last


class MakeJob(Protocol):
    """A job for the tiny base, of some seconds."""

    def __call__(self, **fields: Any) -> TrainingJob: ...


@pytest.fixture
def job(tmp_path: Path, tiny: Path) -> MakeJob:
    """A job for the tiny base, of some seconds."""

    def make(**fields: Any) -> TrainingJob:
        about = {
            "round": "r",
            "method": "sft",
            "base": tiny,
            "out": tmp_path / "adapter",
            "learning_rate": 0.01,
            "batch": 8,
            "epochs": 4.0,
            "evaluations": 4,
            "kl_cap": 100.0,
            "probes": 2,
            "probe_tokens": 8,
            "base_replies": 0.0,
            "threads": 1,
        }
        return TrainingJob.model_validate(about | fields)

    return make


class Trained(Protocol):
    """Trains a job in this process: what it reports. Raises what the child would report as a failure."""

    def __call__(self, job: TrainingJob) -> list[TrainingStep | TrainingResult | TrainingForecast]: ...


@pytest.fixture
def trained() -> Trained:
    """Trains a job in this process, as each start of a child takes 5 s of processor time."""

    def run(job: TrainingJob) -> list[TrainingStep | TrainingResult | TrainingForecast]:
        out = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the libraries; the child logs them
            from conch.training.child.run import train

            train(job, ParentPipe(io.BytesIO(), out), threads=1)
        reports = [decode_training_report(line) for line in out.getvalue().splitlines()]
        return [one for one in reports if isinstance(one, TrainingStep | TrainingResult | TrainingForecast)]

    return run


def result_of(reports: Sequence[object]) -> TrainingResult:
    """The result, which is the last report."""
    assert isinstance(reports[-1], TrainingResult)
    return reports[-1]


class Child(Protocol):
    """Runs the child on a job. `kill_after`: it is killed once it has reported a step beyond this one."""

    def __call__(self, job: TrainingJob, kill_after: int | None = None) -> ChildRun: ...


@pytest.fixture
def child() -> Child:
    """Runs the child on a job as its parent does. It scores replies by their share of the letter T."""

    def run(job: TrainingJob, kill_after: int | None = None) -> ChildRun:
        with (
            TemporaryFile() as errors,
            subprocess.Popen(
                python_command("conch.training.child"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
                env=environment(),
            ) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(job.encode())
            process.stdin.flush()
            found = ChildRun([], None, 0, "")
            for line in process.stdout:
                report = decode_training_report(line)
                if isinstance(report, TrainingStep):
                    found.steps.append(report)
                    if kill_after is not None and report.step > kill_after:
                        process.kill()
                elif isinstance(report, ScoresAsked):
                    scores = tuple(reply.count("T") / max(1, len(reply)) for reply in report.replies)
                    process.stdin.write(ScoresGiven(number=report.number, scores=scores).encode())
                    process.stdin.flush()
                else:
                    found.last = report
            found.status = process.wait()
            errors.seek(0)
            found.errors = errors.read().decode(errors="replace")
        return found

    return run
