"""Attempts to train: what ends them, what is tried again, and what is refused before."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from conch.errors import ConchError, TrainingError
from conch.rounds import round_folder
from conch.training import AdapterShelf
from conch_schemas import TrainingFailed, TrainingFinished, TrainingProgressed, TrainingStarted
from tests.rounds.conftest import GOOD

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.rounds.conftest import Trained


async def acts(trained: Trained, number: int = 60) -> None:
    for _ in range(number):
        await trained.act()


async def attempts(trained: Trained, how: str) -> list[type]:
    """The kinds of events until the round needs no further attempt."""
    await acts(trained, 30)
    log = trained.log()
    trainer = trained.trainer(log, how)
    await trainer.attempt(trained.plan(log))
    while log.state.phase == "training":
        await trainer.advance()
    return [type(one) for one in await trained.events() if not isinstance(one, TrainingProgressed)]


@pytest.mark.parametrize("how", ["killed", "silent"])
async def test_a_child_that_dies_is_tried_once_more(trained: Trained, how: str) -> None:
    """A child that is killed, or ends without a result, fails once; the next attempt makes the adapter."""
    kinds = await attempts(trained, f"{how} good")

    assert kinds == [TrainingStarted, TrainingFailed, TrainingStarted, TrainingFinished]


async def test_what_an_evaluation_found_is_told(trained: Trained) -> None:
    """It follows the report of its step at once, and is not held back: the curve's point has both."""
    await attempts(trained, "good")

    told = [one for one in await trained.events() if isinstance(one, TrainingProgressed) and one.step == 1]
    assert [(one.loss, one.eval_loss, one.kl) for one in told] == [(0.7, None, None), (None, 0.6, 0.1)]
    assert len({one.id for one in told}) == 2


async def test_a_round_that_dies_twice_has_failed(trained: Trained) -> None:
    """After two attempts that were killed there is no third; the sentence names the signal."""
    kinds = await attempts(trained, "killed")

    failed = [one for one in await trained.events() if isinstance(one, TrainingFailed)]
    assert kinds == [TrainingStarted, TrainingFailed, TrainingStarted, TrainingFailed]
    assert [one.again for one in failed] == [True, False]
    assert "SIGKILL" in failed[0].why


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("nan", "the loss is no number at step 2"),
        ("failed", "the loss rose"),
        ("chatter", "wrote what is no report"),
        ("hostile", "use_dora is set"),
    ],
)
async def test_what_would_fail_again_is_not_tried_again(trained: Trained, how: str, words: str) -> None:
    """A loss that is no number, a refusal, a child of another protocol and a hostile adapter end the round, and the
    child with it."""
    kinds = await attempts(trained, how)

    assert not psutil.pid_exists(int((trained.place / "told.pid").read_text()))
    failed = (await trained.events())[-1]
    assert isinstance(failed, TrainingFailed)
    assert words in failed.why
    assert not failed.again
    assert kinds.count(TrainingStarted) == 1
    assert AdapterShelf(trained.home.adapters).digests() == []


async def test_a_trainer_that_ends_takes_its_child_with_it(trained: Trained, until: Until) -> None:
    """Cancelled, the child is killed and nothing is published; the next trainer begins the same data again."""
    await acts(trained, 30)
    log = trained.log()
    plan = trained.plan(log)
    working = asyncio.create_task(trained.trainer(log, "hang good").attempt(plan))
    pid = trained.place / "told.pid"
    await until(pid.exists)
    await until(lambda: log.state.round is not None and bool(log.state.round.progress))

    working.cancel()
    await asyncio.wait([working])

    again = await trained.restored()
    assert not psutil.pid_exists(int(pid.read_text()))
    assert again.state.phase == "training"
    trainer = trained.trainer(again)
    await trainer.advance()
    assert again.state.round is not None
    assert (again.state.round.started.attempt, again.state.round.started.round) == (2, plan.round)
    assert again.state.round.finished is not None


async def test_a_result_that_was_not_published_trains_nothing_twice(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the child's result and the shelf, the next trainer takes the adapter that is there."""
    await acts(trained, 30)
    log = trained.log()
    plan = trained.plan(log)
    with monkeypatch.context() as patch:
        patch.setattr(AdapterShelf, "put", _killed)
        with pytest.raises(KeyboardInterrupt):
            await trained.trainer(log).attempt(plan)

    again = await trained.restored()
    await trained.trainer(again, "failed").advance()

    assert again.state.round is not None
    assert again.state.round.finished is not None
    assert len(trained.jobs) == 1


async def test_a_full_disk_is_a_sentence_and_loses_nothing(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt fails as one that may pass; once there is room, the adapter that is there is shelved."""
    await acts(trained, 30)
    log = trained.log()
    plan, trainer = trained.plan(log), trained.trainer(log)
    with monkeypatch.context() as patch:
        patch.setattr(AdapterShelf, "put", _full)
        await trainer.attempt(plan)

    await trainer.advance()

    failed = next(one for one in await trained.events() if isinstance(one, TrainingFailed))
    assert "is full: make room" in failed.why
    assert failed.again
    assert log.state.round is not None
    assert log.state.round.finished is not None


async def test_nothing_to_learn_from_is_refused_before_a_child_begins(trained: Trained) -> None:
    """No rows, rows that all say the same, rows that wait for a person, and a base that is not there."""
    log = trained.log()
    with pytest.raises(TrainingError, match="no row of sft"):
        trained.plan(log)
    for _ in range(30):
        await trained.act(GOOD)
    with pytest.raises(TrainingError, match="have the same reply"):
        trained.plan(log)
    await acts(trained, 30)
    trained.settings["training"]["review"] = "all"
    with pytest.raises(TrainingError, match=r"not_reviewed.*conch review next"):
        trained.plan(log)
    trained.settings["training"] |= {"review": "none", "base": str(trained.place / "nowhere")}
    with pytest.raises(ConchError, match="there is no model at"):
        trained.plan(log)
    trained.settings["training"]["base"] = None
    with pytest.raises(ConchError, match="there is no base model to train"):
        trained.plan(log)


async def test_the_same_data_make_the_same_round_and_are_trained_on_once(trained: Trained) -> None:
    """Prepared twice, a round is one; after its adapter is made, the data have nothing new."""
    await acts(trained, 30)
    log = trained.log()
    plan = trained.plan(log)
    assert trained.plan(log).round == plan.round

    await trained.trainer(log).attempt(plan)

    with pytest.raises(TrainingError, match="was trained on before"):
        trained.plan(log)


async def test_a_data_set_that_is_gone_fails_the_round(trained: Trained) -> None:
    """A snapshot that was removed between plan and attempt is a sentence, not a crash."""
    await acts(trained, 30)
    log = trained.log()
    plan = trained.plan(log)
    shutil.rmtree(trained.home.path / "data")

    await trained.trainer(log).attempt(plan)

    assert log.state.phase == "failed"
    assert "is no longer in" in (await trained.events())[-1].why  # type: ignore[attr-defined]


async def test_held_out_states_are_never_trained_on(trained: Trained) -> None:
    """No state of a row of train is among those that the gate decodes, and the gate has as many as it needs."""
    for number in range(80):
        await trained.act(state=f"s{number % 40}")
    plan = trained.plan(trained.log())

    lines = (round_folder(trained.home, plan.round) / "held-out" / "cycles.jsonl").read_text().splitlines()

    assert plan.held_out == len(lines) >= 8
    assert not [state for state in plan.states if any(f'"state_key":"{state}"' in line for line in lines)]


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device", str(Path("adapters")))
