"""A round from its data to the gate's verdict, with a stand-in of the training child."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conch_schemas import AdapterGated, AdapterTried, TrainingFinished, TrainingStarted

if TYPE_CHECKING:
    from tests.rounds.conftest import Trained


async def acts(trained: Trained, number: int) -> None:
    for _ in range(number):
        await trained.act()


async def test_a_round_trains_an_adapter_and_the_gate_passes_a_better_one(trained: Trained) -> None:
    """From the store to the shelf and through the gate: each step is an event, in order."""
    await acts(trained, 60)
    log = trained.log()
    trainer = trained.trainer(log)

    await trainer.attempt(trained.plan(log))
    while not log.state.round.tried:  # type: ignore[union-attr]
        assert await trainer.advance() == "done"

    kinds = [type(one) for one in await trained.events()]
    round = log.state.round
    assert round is not None
    assert round.gated is not None
    assert [one for one in kinds if one is not kinds[1]] == [
        TrainingStarted,
        TrainingFinished,
        AdapterGated,
        AdapterTried,
    ]
    assert round.gated.verdict == "passed", [one.why for one in round.gated.conditions if not one.holds]
    assert round.phase == "canary"
