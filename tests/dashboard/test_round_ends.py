"""What a person is told to do about a round of training that ended without an adapter that acts."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conch.home import Home
from conch.rounds import STOPPED
from conch.rounds.making.training import disk_sentence
from conch.training import TrainingRound, lineage_of
from conch.training.child.failures import failure_of
from conch.training.job import TrainingJob
from conch_schemas import AdapterRefused, Event, TrainingFailed
from conch_services.dashboard.story.round_ends import round_end
from tests.training.lives import LineageLife

LIFE = LineageLife(begun=datetime(2026, 1, 1, tzinfo=UTC), step=1.0)
FULL = OSError(errno.ENOSPC, "No space left on device")


def ended(events: Sequence[Event]) -> TrainingRound:
    """The round of these events."""
    round = lineage_of(events).round
    assert round is not None
    return round


def refused(at: str, why: str = "it is so", verdict: str | None = None) -> TrainingRound:
    """A round whose adapter was refused there, after a gate with this verdict, if any was held."""
    round, adapter = LIFE.digest("round 1"), LIFE.digest("adapter 1")
    gate = [] if verdict is None else [LIFE.gated(1, None, verdict)]
    last = LIFE.said(AdapterRefused, 1, round=round, adapter=adapter, at=at, why=why)
    return ended([*LIFE.trained(1, 1, "sft"), *gate, last])


def failed(why: str) -> TrainingRound:
    """A round whose training failed with this reason."""
    round = LIFE.digest("round 1")
    last = LIFE.said(TrainingFailed, 1, round=round, attempt=1, why=why, again=False)
    return ended([*LIFE.training(1, 1, 2), last])


def job(memory_mib: int | None = None) -> TrainingJob:
    """A job, of which the reasons name the folder, the memory and the batch."""
    return TrainingJob.model_construct(out=Path("/home/training/r"), memory_mib=memory_mib, batch=4, max_tokens=512)


@pytest.mark.parametrize(
    ("round", "words", "task", "advice"),
    [
        (refused("gate", verdict="refused"), "The gate", "see which condition failed", "Look at the conditions"),
        (refused("gate", "the engine does not serve it: x"), "The gate", "bring the engine in order", "the version of"),
        (refused("gate", verdict="inconclusive"), "The gate", "bring the engine in order", "not be held"),
        (refused("shadow", verdict="passed"), "The shadow trial", "see what it would have done", "did not act"),
        (refused("canary", verdict="passed"), "The canary", "see what its cycles earned", "Look at the cycles"),
        (
            refused("canary", "The engine does not serve it: x", "passed"),
            "The canary",
            "bring the engine in order",
            "the version of the engine",
        ),
        (refused("file"), "The check of its files", "look at the file that is named", "trains a new adapter"),
    ],
)
def test_each_refusal_has_its_own_advice(round: TrainingRound, words: str, task: str, advice: str) -> None:
    """By where it was refused, and by whether the gate was held at all."""
    end = round_end(round)

    assert end is not None
    assert (end.is_refused, end.words, end.task) == (True, f"{words} refused the adapter", task)
    assert advice in end.advice
    assert "What acted before goes on acting." in end.advice


@pytest.mark.parametrize(
    ("why", "task", "advice"),
    [
        (disk_sentence(FULL, Home(Path("/home"))), "make room on the disk", "Free some space"),
        (failure_of(FULL, job())[0], "make room on the disk", "Free some space"),
        (failure_of(MemoryError(), job())[0], "give it more memory", "training.batch_size"),
        (failure_of(MemoryError(), job(2048))[0], "give it more memory", "training.memory_mib"),
        (
            failure_of(PermissionError(13, "Permission denied", "/x"), job())[0],
            "let the trainer write there",
            "permissions",
        ),
        ("the process was killed by signal 9: the machine may be out of memory", "free some memory", "batch_size"),
        (failure_of(TypeError("unsupported memory format"), job())[0], "mend what stopped it", "mend its cause"),
        (failure_of(ImportError("x", name="peft"), job())[0], "install what it needs", "where the trainer runs"),
        ("the loss is no number at step 3 of 9: a lower learning rate may help", "lower the learning rate", "astray"),
        (failure_of(KeyError("x"), job())[0], "mend what stopped it", "mend its cause"),
    ],
)
def test_each_failure_has_its_own_advice(why: str, task: str, advice: str) -> None:
    """By the reason that the trainer gives."""
    end = round_end(failed(why))

    assert end is not None
    assert (end.is_refused, end.words, end.task) == (False, "Training failed", task)
    assert advice in end.advice
    assert "conch train run" in end.advice


@pytest.mark.parametrize("round", [refused("person"), failed(STOPPED), ended(LIFE.promoted(1, "sft", 1, None, move=1))])
def test_nothing_is_told_of_what_a_person_ended_and_of_what_acts(round: TrainingRound) -> None:
    """The person knows it, and an adapter that acts has not failed."""
    assert round_end(round) is None
