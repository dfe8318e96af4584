"""Gate, trial, moves of the pointer: only a better adapter acts, and one that turns out worse is taken back."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest

from conch.bus import TrialRecord
from conch.errors import CheckError, ModelError, TrainingError
from conch.rounds import LineageTrainer, promote, roll_back, round_folder, say_missing, stop_round, tidy_rounds
from conch.training import AdapterShelf, arm_of, move_pointer, promoted, read_pointer
from conch_schemas import (
    AdapterGated,
    AdapterProbed,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    AdapterShadowed,
    AdapterTried,
    Decoding,
    training_id,
)
from tests.rounds.conftest import AGENT, BAD, GOOD

if TYPE_CHECKING:
    from conch.rounds import LineageLog
    from tests.rounds.conftest import Trained


async def judged(trained: Trained, *, upto: str = "gate") -> LineageTrainer:
    """A lineage with an adapter whose gate has a verdict, or whose trial has begun."""
    for _ in range(60):
        await trained.act()
    log = trained.log()
    trainer = trained.trainer(log)
    await trainer.attempt(trained.plan(log))
    while _is_before(log, upto):
        await trainer.advance()
    return trainer


def _is_before(log: LineageLog, upto: str) -> bool:
    round = log.state.round
    assert round is not None
    if upto == "trial":
        return not round.tried and round.refused is None
    return round.gated is None and round.refused is None


async def canary(trained: Trained, trainer: LineageTrainer, *, candidate: float, incumbent: float) -> None:
    """Cycles of the trial until it has an outcome, with these values of each act."""
    log = trainer.record
    pointer, _ = await read_pointer(trained.bus, AGENT)
    trial = pointer.trial
    assert trial is not None
    while log.state.round is not None and log.state.round.phase == "canary":
        for _ in range(10):
            arm = arm_of(trial.adapter, trained.agentuid, trained.cycles, block=trial.block, share=trial.share)
            is_candidate = arm == "candidate"
            value = candidate if is_candidate else incumbent
            cycle = await trained.act(adapter=trial.adapter if is_candidate else None, value=value)
            experience = trained.store.cycles.get(AGENT, cycle)
            assert experience is not None
            trainer.hear(experience)
        await trainer.advance()


async def test_a_better_canary_is_promoted(trained: Trained) -> None:
    """The pointer moves once, after the test on the blocks says better; the event names the one that allowed it."""
    trainer = await judged(trained, upto="trial")

    await canary(trained, trainer, candidate=0.5, incumbent=-0.5)
    await trainer.advance()

    pointer, _ = await read_pointer(trained.bus, AGENT)
    moved = (await trained.events())[-1]
    assert isinstance(moved, AdapterPromoted)
    tried = next(one for one in await trained.events() if isinstance(one, AdapterTried) and one.verdict is not None)
    assert (tried.verdict, moved.evidence, moved.by) == ("better", tried.id, "trial")
    assert (pointer.adapter, pointer.generation, pointer.trial, pointer.move) == (moved.adapter, 1, None, 1)


async def test_a_worse_canary_is_set_aside(trained: Trained) -> None:
    """What is worse on the cycles does not act again; the pointer was never moved."""
    trainer = await judged(trained, upto="trial")

    await canary(trained, trainer, candidate=-0.5, incumbent=0.5)
    await trainer.advance()

    pointer, _ = await read_pointer(trained.bus, AGENT)
    refused = (await trained.events())[-1]
    assert isinstance(refused, AdapterRefused)
    assert refused.at == "canary"
    assert (pointer.adapter, pointer.trial, pointer.move) == (None, None, 0)


async def test_the_gate_refuses_what_is_no_better(trained: Trained) -> None:
    """An adapter whose replies are those of the base is refused, with the condition that fails."""
    trained.replies = {"": BAD, "*": BAD}
    trainer = await judged(trained)
    await trainer.advance()

    refused = (await trained.events())[-1]
    assert isinstance(refused, AdapterRefused)
    assert refused.at == "gate"
    assert not (await read_pointer(trained.bus, AGENT))[0].trial


async def test_a_gate_goes_on_with_the_replies_that_there_are(trained: Trained) -> None:
    """Ended in the middle, the next run decodes the rest alone and comes to the same evidence."""
    trainer = await judged(trained)
    round = trainer.record.state.round
    assert round is not None
    assert round.gated is not None
    file = round_folder(trained.home, round.started.round) / "gate.jsonl"
    whole = file.read_text()
    file.write_text(whole[: len(whole) // 2])

    again = await trained.restored()
    again.state = again.state.model_copy(
        update={"rounds": (round.model_copy(update={"gated": None, "tried": ()}),), "gates": 0}
    )
    await trained.trainer(again).advance()

    assert again.state.round is not None
    assert again.state.round.gated is not None
    assert again.state.round.gated.evidence == round.gated.evidence
    assert len(file.read_text().splitlines()) == len(whole.splitlines()) + 1  # the line that was cut


async def test_an_engine_that_serves_no_adapter_gets_it_refused(trained: Trained) -> None:
    """What the engine does not apply is no candidate: the reason is kept."""
    trained.refuses = "the probe gives the base's replies"
    trainer = await judged(trained)

    refused = (await trained.events())[-1]
    assert isinstance(refused, AdapterRefused)
    assert "the base's replies" in refused.why
    assert trainer.record.state.phase == "refused"


async def test_an_engine_that_is_away_says_nothing_of_the_adapter(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate raises and publishes nothing; asked again, it judges."""

    async def away(*_: object, **__: object) -> None:
        raise ModelError("nobody answers", unreachable=True)

    for _ in range(60):
        await trained.act()
    log = trained.log()
    trainer = trained.trainer(log)
    await trainer.attempt(trained.plan(log))
    with monkeypatch.context() as patch:
        patch.setattr("conch.rounds.judging.samples.SampleRun.compare", away)
        with pytest.raises(ModelError):
            await trainer.advance()
    assert not [one for one in await trained.events() if isinstance(one, AdapterGated)]

    await trainer.advance()

    assert [one.verdict for one in await trained.events() if isinstance(one, AdapterGated)] == ["passed"]


async def test_a_judge_that_is_down_gives_no_verdict(trained: Trained) -> None:
    """A score that could not be made is neither zero nor a refusal: the gate is asked again, three times at most."""
    rubric = trained.place / "wit.txt"
    rubric.write_text("Is it witty?")
    trained.settings["rewards"] = {
        "judges": {"wit": {"rubric": str(rubric), "held_out": True, "base_url": "http://127.0.0.1:9/v1", "tries": 1}}
    }
    trainer = await judged(trained)
    first = trainer.record.state.round
    assert first is not None
    assert first.gated is not None
    assert first.gated.verdict == "inconclusive"

    while trainer.record.state.phase == "gating":
        await trainer.advance()

    events = await trained.events()
    assert [one.number for one in events if isinstance(one, AdapterGated)] == [1, 2, 3]
    assert isinstance(events[-1], AdapterRefused)
    assert "without a verdict" in events[-1].why


async def test_a_kill_between_pointer_and_event_loses_no_event(trained: Trained) -> None:
    """The pointer was moved and its event was not published: the next one who looks publishes it, once."""
    trainer = await judged(trained, upto="trial")
    adapter = trainer.record.state.rounds[0].adapter
    assert adapter is not None
    await move_pointer(
        trained.bus, AGENT, lambda before: promoted(before, adapter, 1, why="it is better", by="trial", evidence="e1")
    )

    again = await trained.restored()
    said = await say_missing(again)
    assert await say_missing(again) is None
    assert await say_missing(await trained.restored()) is None

    assert isinstance(said, AdapterPromoted)
    assert (said.id, said.by, said.evidence) == (training_id(trained.agentuid, AdapterPromoted, 1), "trial", "e1")
    assert sum(isinstance(one, AdapterPromoted) for one in await trained.events()) == 1


async def test_a_promotion_is_taken_back_in_one_move(trained: Trained) -> None:
    """Rolled back, what acted before acts again; a second time there is nothing to roll back to."""
    trainer = await judged(trained)
    log, shelf = trainer.record, AdapterShelf(trained.home.adapters)
    adapter = shelf.digests()[0]
    await promote(log, trained.home, adapter, by="person", why="I like it")

    moved = await roll_back(log, None, trigger="person", why="I do not")

    assert moved is not None
    assert (moved.adapter, moved.to, moved.move) == (adapter, None, 2)
    assert (await read_pointer(trained.bus, AGENT))[0].adapter is None
    with pytest.raises(TrainingError, match="nothing to roll back to"):
        await roll_back(log, None, trigger="person", why="again")


async def test_an_adapter_of_another_agent_never_acts(trained: Trained) -> None:
    """It is on the shelf, whole, and promotes nothing."""
    trainer = await judged(trained)
    shelf = AdapterShelf(trained.home.adapters)
    found = shelf.get(shelf.digests()[0])
    other = shelf.put(found.folder, found.identity.model_copy(update={"agentuid": "1" * 8}))

    with pytest.raises(CheckError, match="for another agent"):
        await promote(trainer.record, trained.home, other.digest, by="person", why="x")

    assert (await read_pointer(trained.bus, AGENT))[0].move == 0


@pytest.mark.parametrize("cause", ["probe", "format", "guard"])
async def test_a_promoted_adapter_that_turns_bad_is_rolled_back(trained: Trained, cause: str) -> None:
    """By a probe that fails, by replies that are no actions any more, by acts that the guard blocks."""
    trainer = await judged(trained)
    log, shelf = trainer.record, AdapterShelf(trained.home.adapters)
    adapter = shelf.digests()[0]
    for _ in range(60):
        await trained.act()
    await promote(log, trained.home, adapter, by="person", why="I like it")
    for _ in range(0 if cause == "probe" else 110):
        raw = BAD if cause == "format" else GOOD
        await trained.act(raw, adapter=adapter, blocked=cause == "guard")
    if cause == "probe":
        await log.publish(
            AdapterProbed, "p", adapter=adapter, engine="stub", served_as="conch-1", proven=False, why="it is the base"
        )

    assert await trainer.watch()

    moved = (await trained.events())[-1]
    assert isinstance(moved, AdapterRolledBack)
    assert (moved.trigger, moved.to) == (cause, None)


async def test_a_good_adapter_is_left_alone(trained: Trained) -> None:
    """As many acts as would show a fall, without one: no move."""
    trainer = await judged(trained)
    adapter = AdapterShelf(trained.home.adapters).digests()[0]
    await promote(trainer.record, trained.home, adapter, by="person", why="I like it")
    for _ in range(110):
        await trained.act(adapter=adapter)

    assert not await trainer.watch()


@pytest.mark.parametrize(("raw", "stage"), [(GOOD, "canary"), (BAD, None)])
async def test_a_shadow_lets_no_format_slip(trained: Trained, raw: str, stage: str | None) -> None:
    """Decided beside ten acts, valid replies lead to the canary; invalid ones end the trial before it acts."""
    from conch.actions import parse
    from tests.rounds.conftest import REGISTRY

    trained.settings["training"]["trial"] = {"shadow": 10, "block": 1}
    trainer = await judged(trained, upto="trial")
    round = trainer.record.state.round
    assert round is not None
    for _ in range(12):
        cycle = await trained.act()
        act = trained.store.cycles.act(AGENT, cycle)
        assert act is not None
        shadow = AdapterShadowed(
            id=f"shadow-{cycle}", source=act.source, agent=AGENT, cycle=cycle, action_id=act.action_id,
            adapter=round.adapter or "", round=round.started.round, raw=raw, raw_length=len(raw), raw_sha256="0" * 64,
            action=parse(raw, REGISTRY), model="m", finish_reason="stop", ms=1.0,
            decoding=Decoding(engine="stub", model="m", adapter=round.adapter),
        )  # fmt: skip
        trained.apply(shadow)
    while trainer.record.state.round is not None and trainer.record.state.round.phase == "shadow":
        await trainer.advance()
    await trainer.advance()

    trial = (await read_pointer(trained.bus, AGENT))[0].trial
    assert (None if trial is None else trial.stage) == stage


async def test_stopped_by_a_person_a_trial_ends(trained: Trained) -> None:
    """The candidate does not act again, and the pointer has no trial."""
    trainer = await judged(trained, upto="trial")

    await stop_round(trainer.record)

    assert (await read_pointer(trained.bus, AGENT))[0].trial is None
    assert trainer.record.state.phase == "refused"
    with pytest.raises(TrainingError, match="no round of echo is in progress"):
        await stop_round(trainer.record)


async def test_two_trials_do_not_run_at_once(trained: Trained) -> None:
    """A second candidate waits: the first one's trial goes on."""
    from conch.rounds.moves import begin_trial

    trainer = await judged(trained, upto="trial")
    other = TrialRecord(adapter="f" * 64, generation=2, stage="canary", begun=99)

    with pytest.raises(TrainingError, match="is on trial"):
        await begin_trial(trainer.record, other)


async def test_only_what_may_act_again_is_kept(trained: Trained) -> None:
    """A refused adapter beyond `training.keep` is removed with its data, its evidence stays."""
    trained.replies = {"": BAD, "*": BAD}
    trainer = await judged(trained)
    await trainer.advance()
    round = trainer.record.state.round
    assert round is not None

    gone = await asyncio.to_thread(tidy_rounds, trained.home, [trainer.record.state], 0)

    folder = round_folder(trained.home, round.started.round)
    assert gone == [round.adapter]
    assert (folder / "gate.jsonl").exists()
    assert not (folder / "held-out").exists()


async def test_evidence_that_was_changed_is_seen(trained: Trained) -> None:
    """The gate's verdict is computed again from its files: a reply that was edited gives another digest."""
    from conch.rounds import verdict_again

    trainer = await judged(trained)
    round = trainer.record.state.round
    assert round is not None
    assert round.gated is not None
    assert verdict_again(trained.home, round.started.round).evidence == round.gated.evidence
    file = round_folder(trained.home, round.started.round) / "gate.jsonl"

    file.write_text(file.read_text().replace('"valid":false', '"valid":true', 1))
    assert verdict_again(trained.home, round.started.round).evidence != round.gated.evidence
    shutil.rmtree(file.parent)

    with pytest.raises(CheckError, match="cannot be read"):
        verdict_again(trained.home, round.started.round)
