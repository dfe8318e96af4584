"""Each method on a tiny model: better on its own measure, and the same job gives the same adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from conch.training import LoraShape, ReplaySource, TrainingForecast, TrainingStep, check_weights
from tests.training.child.conftest import (
    Child,
    MakeJob,
    Snapshot,
    Trained,
    asked,
    good,
    result_of,
    row,
    rows_of_format,
    said,
)


def test_sft_lowers_the_loss_on_rows_that_it_did_not_see(
    job: MakeJob, trained: Trained, snapshot: Snapshot, tmp_path: Path
) -> None:
    """The adapter is plain LoRA that servers take; its probes differ from the base; a second training is equal."""
    new = snapshot("sft", rows_of_format("sft", range(4)))

    reports = trained(job(snapshot=new))
    result = result_of(reports)
    again = result_of(trained(job(snapshot=new, out=tmp_path / "again")))

    assert result.figures["eval_loss"] < result.figures["eval_loss_before"] - 1
    assert [one.step for one in reports if isinstance(one, TrainingStep) and one.kl is not None] == [
        4,
        8,
        12,
        16,
    ]
    lora = check_weights(tmp_path / "adapter")
    assert lora.rank == result.lora.r == 16
    assert len(lora.modules) == len(result.lora.targets) == 14
    assert all(one.base != one.adapter for one in result.probes)
    assert len(result.probes) == 2
    assert result.counts.rows == 28
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter", "again", "data"]
    assert (again.weights_sha256, again.config_sha256) == (result.weights_sha256, result.config_sha256)


def test_dpo_widens_the_margin_after_the_format_was_learnt(job: MakeJob, trained: Trained, snapshot: Snapshot) -> None:
    """On pairs of eval. The reference is the model as SFT left it: the first margin is near 0."""
    pairs = snapshot("dpo", rows_of_format("dpo", range(4)))
    first = snapshot("sft", rows_of_format("sft", range(2)), "first")
    wanted = job(
        method="dpo", snapshot=pairs, format_snapshot=first, learning_rate=0.001, format_learning_rate=0.01, epochs=2.0
    )

    reports = trained(wanted)
    result = result_of(reports)

    stages = [one.stage for one in reports if isinstance(one, TrainingStep)]
    margins = [
        one.margin for one in reports if isinstance(one, TrainingStep) and one.stage == "dpo" and one.margin is not None
    ]
    assert stages[0] == "sft"
    assert stages[-1] == "dpo"
    assert result.counts.format_rows == 14
    assert margins[0] == 0
    assert result.figures["margin"] > 1
    assert result_of(trained(wanted.model_copy(update={"out": wanted.out.with_name("again")}))).weights_sha256 == (
        result.weights_sha256
    )


def test_kto_widens_the_margin_of_good_over_bad_replies(job: MakeJob, trained: Trained, snapshot: Snapshot) -> None:
    """From labels alone."""
    wanted = job(method="kto", snapshot=snapshot("kto", rows_of_format("kto", range(4))), epochs=3.0)

    result = result_of(trained(wanted))
    again = result_of(trained(wanted.model_copy(update={"out": wanted.out.with_name("again")})))

    assert result.figures["margin"] > 0.5
    assert again.weights_sha256 == result.weights_sha256


def test_grpo_raises_the_reward_that_the_parent_gives(job: MakeJob, child: Child, snapshot: Snapshot) -> None:
    """Replies go to the parent with the ids of their rows, and scores come back."""
    rows = rows_of_format("grpo", range(3))
    wanted = job(
        method="grpo",
        snapshot=snapshot("grpo", rows),
        batch=16,
        generations=8,
        reply_tokens=8,
        epochs=3.0,
        learning_rate=0.02,
        patience=99,
    )

    run = child(wanted)

    rewards = [one.reward for one in run.steps if one.reward is not None]
    assert run.result.figures["reward"] > rewards[0]
    assert sum(rewards[-4:]) > sum(rewards[:4])


def test_replay_takes_a_share_of_earlier_rows_and_none_of_a_state_in_eval(
    job: MakeJob, trained: Trained, snapshot: Snapshot
) -> None:
    """A row that the new snapshot has, and one whose state it measures, are held back and counted."""
    new = rows_of_format("sft", range(2))
    of_eval = next(one.state_key for one in new if one.split == "eval")
    measured = row("sft", {"prompt": asked("kelp.md", 9), "completion": said(good("kelp.md"))}, of_eval)
    old = [*rows_of_format("sft", range(2, 4)), new[0], measured]
    source = ReplaySource(snapshot=snapshot("sft", old, "old"), share=0.2)

    forecast = trained(job(snapshot=snapshot("sft", new), replay=(source,), dry_run=True))[-1]

    assert isinstance(forecast, TrainingForecast)
    assert forecast.counts.replayed == 3
    assert forecast.counts.held_back == 2
    assert forecast.counts.rows == 14 + 3


def test_a_dry_run_counts_and_measures_and_writes_nothing(job: MakeJob, trained: Trained, snapshot: Snapshot) -> None:
    """Rows, tokens, the longest row, what is too long, steps, minutes and memory, and how these were found."""
    wanted = job(snapshot=snapshot("sft", rows_of_format("sft", range(4))), dry_run=True)

    (forecast,) = trained(wanted)

    assert isinstance(forecast, TrainingForecast)
    counts = forecast.counts
    assert (counts.rows, counts.eval_rows, counts.too_long) == (28, 4, 0)
    assert counts.longest * 20 < counts.tokens <= counts.longest * 28
    assert forecast.steps == 16
    assert 0 < forecast.minutes < 5
    assert 200 < forecast.mib < 8000
    assert "tokens/s" in forecast.how
    assert [path.name for path in wanted.out.parent.iterdir()] == ["data"]


def test_a_row_that_is_too_long_is_left_out_and_counted(job: MakeJob, trained: Trained, snapshot: Snapshot) -> None:
    """Never cut."""
    wanted = job(snapshot=snapshot("sft", rows_of_format("sft", range(4))), dry_run=True)
    (whole,) = trained(wanted)
    assert isinstance(whole, TrainingForecast)

    (less,) = trained(wanted.model_copy(update={"max_tokens": whole.counts.longest - 1}))

    assert isinstance(less, TrainingForecast)
    assert less.counts.too_long > 0
    assert less.counts.rows + less.counts.too_long == whole.counts.rows
    assert less.counts.longest < whole.counts.longest


@pytest.mark.parametrize(("targets", "modules"), [((), 14), (("q_proj", "v_proj"), 4)])
def test_the_layers_of_an_adapter_are_those_asked_for(
    targets: tuple[str, ...], modules: int, job: MakeJob, trained: Trained, snapshot: Snapshot, tmp_path: Path
) -> None:
    """All linear ones but the output layer, or those named."""
    new = snapshot("sft", rows_of_format("sft", range(1)))

    trained(job(snapshot=new, epochs=1.0, probes=0, lora=LoraShape(r=4, alpha=8, targets=targets)))

    assert len(check_weights(tmp_path / "adapter").modules) == modules
