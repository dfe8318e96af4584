"""`conch train`: a round from its forecast to a promotion and back, what it refuses, and a proof."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from conch.cli import train, train_show
from conch.cli.common import CommonOptions
from conch.errors import BusUnreachableError, ConchError, ConfigError, HomeBusyError, TrainingError, UsageError
from tests.rounds.conftest import AGENT, WEIGHTS, Trained, trained

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Life

__all__ = ["trained"]
Printed = Callable[[], str]


@pytest.fixture
async def ready(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> Trained:
    """A home with 60 cycles, a stand-in of the training child, and an engine that replies by the adapter."""
    for _ in range(60):
        await trained.act()
    trained.store.close()
    mind = {"kind": "scripted", "script": str(trained.place / "script.txt")}
    trained.home.config_file.write_text(yaml.safe_dump({"agent": AGENT, "mind": mind, **trained.settings}))
    monkeypatch.setattr("conch.rounds.making.child.python_command", lambda _: trained.child("good"))
    monkeypatch.setattr("conch.rounds.acting_engine", trained.engine)
    return trained


@pytest.fixture
def common(ready: Trained) -> CommonOptions:
    """The options that name this home."""
    return CommonOptions(home=ready.home.path)


async def test_an_adapter_is_trained_judged_promoted_and_taken_back(
    common: CommonOptions, ready: Trained, printed: Printed
) -> None:
    """By commands alone: each says what it did; a rollback ends at the base; the same data are trained on once."""
    await train.run(common=common)
    said = printed()
    assert "the gate passed" in said
    name = said.split("the gate passed ")[1][:12]

    train_show.list_(common=common)
    assert "the base alone acts for echo (move 0)" in (listed := printed())
    assert name in listed
    train_show.show(name, common=common)
    shown = printed()
    assert "difference" in shown
    assert "held_out_rule" in shown
    await train.diff(name, "1", common=common)
    assert "*" not in printed()

    await train.promote(name, common=common)
    assert printed().startswith(f"generation 1, adapter {name}, acts from the next cycle on")
    await train.rollback(common=common)
    assert printed() == f"the base alone acts from the next cycle on; {name} does not\n"
    with pytest.raises(TrainingError, match="there is nothing to roll back to: echo acts by its base model alone"):
        await train.rollback(common=common)
    assert len(ready.jobs) == 1


@pytest.fixture
def unharmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a rule that is held out, by which the acts of `ready` were scored too."""
    monkeypatch.setitem(WEIGHTS, "unharmed", (0.0, 0.0, 1.0))
    file = tmp_path / "rules.py"
    file.write_text(
        "from conch import rule\n\n\n@rule(held_out=True)\ndef unharmed(action) -> float:\n"
        '    """1 for a call that ended well."""\n    return float(action.outcome.status == "success")\n'
    )
    return file


async def test_the_gate_scores_by_the_rules_that_are_named(
    unharmed: Path, common: CommonOptions, ready: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the file of a rule that the last run had, nothing is trained; with it a sentence names the rule, and the
    gate compares by it."""
    with pytest.raises(UsageError, match=r"the last run scored by unharmed, of which no rule is here: --rules names"):
        await train.run(common=common)
    (broken := ready.place / "broken.py").write_text("import nowhere\n")
    with pytest.raises(UsageError, match=r"broken.py is no file of rules: .*nowhere"):
        await train.run(rules=[broken], common=common)
    assert ready.jobs == []

    await train.run(rules=[unharmed], common=common)

    told = capsys.readouterr().err
    assert "the gate scores by the built-in rules, unharmed (held out)\n" in told
    assert "held_out_rule: The held-out rule differs by" in told


async def test_a_dry_run_says_what_a_round_would_take_and_trains_nothing(
    common: CommonOptions, ready: Trained, printed: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows, tokens, steps, minutes and memory; as JSON too. No round has begun."""
    await train.run(dry_run=True, common=common)
    told = capsys.readouterr()
    assert "1000 tokens in 10 rows, the longest of 120; 0 are too long" in told.out
    assert "6 steps, some 2 minutes, 700 MiB; nothing was trained" in told.out
    assert "recorded decisions are held out for the gate" in told.err

    await train.run(dry_run=True, common=CommonOptions(home=ready.home.path, json=True))
    document = json.loads(printed())
    assert (document["method"], document["tokens"], document["mib"]) == ("sft", 1000, 700.0)
    train_show.list_(common=common)
    assert printed() == "the base alone acts for echo (move 0); its lineage is collecting\n"


async def test_a_refused_adapter_acts_only_where_a_person_insists(
    common: CommonOptions, ready: Trained, printed: Printed
) -> None:
    """One that is no better than its base: the reason is told, and a promotion asks for a word more."""
    ready.replies["*"] = ready.replies[""]
    await train.run(common=common)
    said = printed()
    assert "is refused: " in said
    name = said.split("the adapter ")[1][:12]

    with pytest.raises(UsageError, match=r"the gate refused this adapter .* --despite-gate lets it act anyway"):
        await train.promote(name, common=common)
    await train.promote(name, despite=True, common=common)
    assert f"adapter {name}, acts from the next cycle on" in printed()


async def test_a_child_that_cannot_train_ends_in_its_sentence(
    common: CommonOptions, ready: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the round and of the dry run alike."""
    monkeypatch.setattr("conch.rounds.making.child.python_command", lambda _: ready.child("failed"))
    with pytest.raises(TrainingError, match="the loss rose"):
        await train.run(dry_run=True, common=common)
    with pytest.raises(TrainingError, match=r"round .* failed: the loss rose"):
        await train.run(common=common)


async def test_names_that_fit_nothing_are_refused(common: CommonOptions) -> None:
    """Before a round was trained, and after; a cycle that is not recorded; nothing to stop."""
    with pytest.raises(UsageError, match="nothing was trained yet: conch train run begins a round"):
        train_show.show(common=common)
    for asked in (partial(train.promote, "beef"), partial(train.diff, "beef", "1"), partial(train.promote, "be")):
        with pytest.raises(UsageError, match=r"no round and no adapter is called 'be.*conch train list shows them"):
            await asked(common=common)
    with pytest.raises(UsageError, match="there is no generation 1"):
        train_show.show("1", common=common)
    with pytest.raises(ConchError, match="there is no recorded cycle 999 of echo"):
        await train.prove(999, common=common)
    with pytest.raises(TrainingError, match="no round of echo is in progress"):
        await train.stop(common=common)


async def test_an_act_of_the_base_is_proven_to_be_one(common: CommonOptions, printed: Printed) -> None:
    """The engine that decoded it is named."""
    await train.prove(3, common=common)

    assert printed().splitlines() == [
        "cycle 3 of echo was decided by the base alone",
        "  ok      act: The reply was decoded without an adapter, by stub.",
    ]


async def test_a_second_trainer_is_refused(
    common: CommonOptions, ready: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the home is another command's; nothing was begun."""
    monkeypatch.setattr("conch.cli.common.BUSY_SECONDS", 0.1)
    with ready.home.owned(), pytest.raises(HomeBusyError, match=r"is in use by process \d+: that is another command"):
        await train.run(common=common)

    assert ready.jobs == []


async def test_a_home_without_rows_or_a_base_says_what_is_missing(common: CommonOptions, ready: Trained) -> None:
    """The base first: without one nothing can be trained."""
    settings = yaml.safe_load(ready.home.config_file.read_text())
    settings["training"]["base"] = str(ready.place / "nowhere")
    ready.home.config_file.write_text(yaml.safe_dump(settings))
    with pytest.raises(UsageError, match=r"there is no model at .*nowhere: set training.base"):
        await train.run(common=common)
    del settings["training"]["base"]
    ready.home.config_file.write_text(yaml.safe_dump(settings))
    with pytest.raises(ConfigError, match="there is no base model to train: the mind is scripted"):
        await train.run(common=common)


async def test_a_served_model_that_is_gone_is_named(common: CommonOptions, ready: Trained) -> None:
    """The file of `mind.model`, as when the model is served."""
    pytest.importorskip("gguf", reason="the kind transformers needs the extra train")
    settings = yaml.safe_load(ready.home.config_file.read_text())
    del settings["training"]["base"]
    settings["mind"] = {"kind": "transformers", "model": str(ready.place / "gone")}
    ready.home.config_file.write_text(yaml.safe_dump(settings))

    with pytest.raises(ConfigError, match=r"mind\.model: there is no file .*gone: name a GGUF file"):
        await train.run(common=common)


async def test_beside_a_run_without_a_trainer_it_says_so(filled: Life, in_progress: InProgress) -> None:
    """The command asks the run's trainer, and there is none."""
    async with in_progress():
        with pytest.raises(BusUnreachableError, match=r"training.enabled"):
            await train.run(common=CommonOptions(home=filled.home.path))
