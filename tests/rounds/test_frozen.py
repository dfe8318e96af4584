"""Generations of an embedded mind in the lineage: moved and proven as adapters are, judged by their agent alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from conch.errors import CheckError
from conch.minds import FrozenShelf, ReflexMind
from conch.rounds import promote, prove_act, roll_back
from conch.testing import make_action_taken
from conch.training import read_pointer
from conch_schemas import Decoding, TrainingFinished, TrainingStarted
from tests.rounds.conftest import AGENT

if TYPE_CHECKING:
    from conch.rounds import LineageLog
    from tests.rounds.conftest import Trained


async def frozen_round(trained: Trained, log: LineageLog) -> str:
    """A round of an embedded mind, as its agent publishes it: the digest of the frozen parameters."""
    shelf = FrozenShelf(trained.home.generations(AGENT))
    digest = ReflexMind(trained.place / "reflex.npz").freeze(shelf).digest
    common: dict[str, Any] = {"round": "f" * 64, "attempt": 1}
    await log.publish(
        TrainingStarted, "f", **common, method="bandit", generation=1, base="", snapshot="", rows=9, why="schedule"
    )
    await log.publish(TrainingFinished, "f", **common, adapter=digest, bytes=1, seconds=1.0)
    return digest


async def test_frozen_parameters_are_promoted_and_rolled_back_as_adapters_are(trained: Trained) -> None:
    """By the same two moves; a file that was changed is not promoted."""
    log = trained.log()
    digest = await frozen_round(trained, log)

    moved = await promote(log, trained.home, digest, by="person", why="I like it")
    pointer, _ = await read_pointer(trained.bus, AGENT)
    assert (moved.adapter, moved.generation, pointer.adapter) == (digest, 1, digest)

    back = await roll_back(log, None, trigger="person", why="I do not")
    assert back is not None
    assert (back.adapter, back.to) == (digest, None)
    (trained.home.generations(AGENT) / f"{digest}.npz").write_bytes(b"PK")
    with pytest.raises(CheckError, match="was changed"):
        await promote(log, trained.home, digest, by="person", why="again")


async def test_a_trainer_leaves_the_rounds_of_an_embedded_mind_alone(trained: Trained) -> None:
    """Frozen parameters without a verdict yet are the agent's to judge: nothing is published."""
    log = trained.log()
    await frozen_round(trained, log)
    before = await trained.events()

    assert await trained.trainer(log).advance() == "waits"

    assert await trained.events() == before


async def test_an_act_of_frozen_parameters_is_proven_without_a_probe(trained: Trained) -> None:
    """File, round and move allow it; a file that was changed breaks the proof, one that made room does not."""
    log = trained.log()
    digest = await frozen_round(trained, log)
    await promote(log, trained.home, digest, by="person", why="I like it")
    decoding = Decoding(engine="reflex", model="reflex", adapter=digest)
    act = make_action_taken(0, decoding=decoding, time=datetime.now(UTC) + timedelta(seconds=1))
    file = trained.home.generations(AGENT) / f"{digest}.npz"

    async def steps() -> dict[str, bool | None]:
        proof = prove_act(act, await trained.events(), log.state, trained.home, log.agentuid)
        return {one.name: one.holds for one in proof.steps}

    assert await steps() == {"act": True, "file": True, "training": True, "gate": False, "allowed": True}
    file.write_bytes(b"PK")
    assert (await steps())["file"] is False
    file.unlink()
    assert (await steps())["file"] is None
