"""A reflex mind's parameters are frozen, judged on later choices, named by the policy, and set back."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from conch.bus import MemoryBus
from conch.cycle.acting.judged import judge
from conch.errors import CheckError
from conch.minds import ChoiceLog, DrawnChoice, FrozenShelf, LinUCB, ReflexMind, blank_bandit, learnt
from conch.minds.embedded.bandit import Sparse
from conch.minds.embedded.features import SIZE
from conch.minds.embedded.memory import BanditMemory, save
from conch.training import move_pointer, promoted, rolled_back
from conch.training.gate import OffPolicyLimits
from conch_schemas import (
    ActionDecided,
    AdapterGated,
    AdapterPromoted,
    AdapterRefused,
    PolicySet,
    TrainingFinished,
    TrainingStarted,
)

if TYPE_CHECKING:
    from tests.cycle.conftest import Life


@pytest.fixture
def learner(life: Life, tmp_path: Path) -> ReflexMind:
    """The reflex mind of the agent, whose parameters are frozen every 5 cycles."""
    life.configured(mind={"kind": "reflex"}, training={"enabled": True, "every": 5})
    mind = ReflexMind(tmp_path / "reflex.npz", epsilon=0.05)
    life.mind = mind  # type: ignore[assignment]
    life.frozen = mind, FrozenShelf(tmp_path / "generations")
    return mind


async def move(life: Life, change: object) -> None:
    """Move the pointer."""
    assert callable(change)
    async with MemoryBus(life.journal) as bus:
        await move_pointer(bus, life.settings.agent, change)


def shelf_of(life: Life) -> FrozenShelf:
    assert life.frozen is not None
    return life.frozen[1]


async def test_parameters_are_frozen_and_judged_at_the_next_time(life: Life, learner: ReflexMind) -> None:
    """The round of a bandit is begun, made, judged and set aside: no reward has come, so nothing can be said."""
    await life.run(12)

    [started], [finished], [gated] = (
        life.facts(TrainingStarted), life.facts(TrainingFinished), life.facts(AdapterGated)
    )  # fmt: skip
    assert (started.method, started.generation, started.round) == ("bandit", 1, finished.round)
    assert len(list(shelf_of(life).folder.iterdir())) == 2
    assert shelf_of(life).get(finished.adapter).digest == gated.adapter
    assert gated.verdict == "inconclusive"
    assert [one.adapter for one in life.facts(AdapterRefused)] == [finished.adapter]


async def test_each_act_names_the_generation_that_the_pointer_names(life: Life, learner: ReflexMind) -> None:
    """A move to frozen parameters sets them and names them; a move back takes both back, in the next cycle."""
    await life.run(2)
    first = learner.freeze(shelf_of(life)).digest
    await move(life, lambda before: promoted(before, first, 1, why="better", evidence="e1"))
    await life.run(4)
    await move(life, lambda before: rolled_back(before, first, why="worse"))
    await life.run(6)

    decided = life.facts(ActionDecided)
    assert [one.decoding.adapter for one in decided] == [None, None, first, first, None, None]
    content = {one.policy: one.adapter for one in life.facts(PolicySet)}
    assert [content[one.policy] for one in decided] == [None, None, first, first, None, None]
    assert learner.generation == ""


async def test_old_parameters_make_room(life: Life, learner: ReflexMind) -> None:
    """The one that acts, the newest one and `training.keep` more stay, however often they are frozen."""
    life.configured(training={"keep": 1})
    await life.run(2)
    shelf = shelf_of(life)
    first = learner.freeze(shelf).digest
    await move(life, lambda before: promoted(before, first, 1, why="better"))
    for _ in range(4):
        learner._memory.bandit.choices += 1
        learner.freeze(shelf)
    assert len(list(shelf.folder.iterdir())) == 5
    learner._memory.bandit.choices += 1

    await life.run(6)

    kept = {path.stem for path in shelf.folder.iterdir()}
    assert first in kept
    assert len(kept) == 3


async def test_damaged_parameters_change_nothing(life: Life, learner: ReflexMind) -> None:
    """A file that was changed is not used: the mind goes on with what it has learnt, and names no generation."""
    await life.run(2)
    shelf = shelf_of(life)
    digest = learner.freeze(shelf).digest
    (shelf.folder / f"{digest}.npz").write_bytes(b"PK")
    await move(life, lambda before: promoted(before, digest, 1, why="better"))
    await life.run(4)

    assert [one.decoding.adapter for one in life.facts(ActionDecided)] == [None] * 4
    with pytest.raises(CheckError, match="was changed"):
        shelf.get(digest)


async def test_a_generation_of_an_earlier_version_is_left_and_the_next_ones_are_judged(
    life: Life, tmp_path: Path
) -> None:
    """The policy names parameters that mean nothing here: the mind goes on with what it has learnt, and what it freezes
    is compared with a mind that has learnt nothing."""
    mind = ReflexMind(tmp_path / "reflex.npz", epsilon=0.05)
    life.configured(mind={"kind": "reflex"}, training={"enabled": True, "every": 3})
    life.mind = mind  # type: ignore[assignment]
    life.frozen = mind, FrozenShelf(tmp_path / "generations")
    await life.run(1)
    shelf = shelf_of(life)
    content = tmp_path / "old"
    with content.open("wb") as file:
        np.savez(file, layout=np.array("0123456789abcdef"))
    digest = hashlib.sha256(content.read_bytes()).hexdigest()
    shelf.folder.mkdir(exist_ok=True)
    (shelf.folder / f"{digest}.npz").write_bytes(content.read_bytes())
    await move(life, lambda before: promoted(before, digest, 1, why="better"))
    await life.run(11)

    assert [one.decoding.adapter for one in life.facts(ActionDecided)] == [None] * 11
    assert len(life.facts(AdapterGated)) == 2


def test_the_same_parameters_have_the_same_digest(learner: ReflexMind, tmp_path: Path) -> None:
    """Freezing twice makes one file."""
    shelf = FrozenShelf(tmp_path / "generations")

    assert learner.freeze(shelf).digest == learner.freeze(shelf).digest
    assert len(list(shelf.folder.iterdir())) == 1


async def test_without_training_nothing_is_kept(life: Life, tmp_path: Path) -> None:
    """A mind whose parameters are not frozen keeps no candidates, and its policy is as it was."""
    mind = ReflexMind(tmp_path / "reflex.npz")
    life.mind = mind  # type: ignore[assignment]
    await life.run(3)

    assert mind.drawn is None
    assert all(one.decoding.adapter is None for one in life.facts(ActionDecided))


def drawn(cycle: int, chosen: int) -> DrawnChoice:
    """A choice between two candidates, each evenly likely."""
    features = np.zeros((2, SIZE))
    features[0, 0] = features[1, 1] = 1.0
    return DrawnChoice.of(cycle, features, np.zeros(2), [chosen], 0.5)


def taught(rewards: tuple[float, float]) -> LinUCB:
    """A bandit that knows what each candidate earns."""
    bandit = blank_bandit()
    for _ in range(50):
        for place, reward in enumerate(rewards):
            x = np.zeros(SIZE)
            x[place] = 1.0
            bandit.choose(Sparse.of(x))
            bandit.learn(Sparse.of(x), reward, bandit.choices)
    return bandit


def test_the_better_parameters_pass_and_the_worse_are_found_out() -> None:
    """On choices that pay for the second candidate alone, parameters that prefer it win; the other way round they are
    worse; equal ones are neither."""
    paid = [(drawn(cycle, cycle % 2), float(cycle % 2), 1) for cycle in range(400)]
    right, wrong = taught((0.0, 1.0)), taught((1.0, 0.0))
    better, worse, same = (
        judge(paid, candidate, incumbent, 0.05, OffPolicyLimits(), 1)
        for candidate, incumbent in ((right, wrong), (wrong, right), (right, right))
    )

    assert (better.better.verdict, better.worse) == ("passed", False)
    assert (worse.better.verdict, worse.worse) == ("refused", True)
    assert (same.better.verdict, same.worse) == ("refused", False)
    assert better.evidence != worse.evidence


def test_a_choice_is_asked_about_as_it_was_drawn() -> None:
    """The probabilities under other parameters sum to one, and none is below its share of the even draws."""
    chances = drawn(1, 0).chances(taught((0.0, 1.0)), 0.05)

    assert np.allclose(chances, [0.025, 0.975])


@pytest.mark.parametrize("pays", [1, 0], ids=["better", "worse"])
async def test_better_parameters_are_named_and_worse_ones_set_back(life: Life, tmp_path: Path, pays: int) -> None:
    """What was frozen prefers the second candidate. Where that paid in later choices it becomes a generation; where it
    did not, the mind begins again from what was before."""
    file = tmp_path / "reflex.npz"
    save(BanditMemory(bandit=taught((0.0, 1.0))), file)
    mind = ReflexMind(file, epsilon=0.05)
    life.configured(mind={"kind": "reflex"}, training={"enabled": True, "every": 5})
    life.mind = mind  # type: ignore[assignment]
    life.frozen = mind, FrozenShelf(tmp_path / "generations")
    mind.drawn = ChoiceLog()
    for cycle in range(1000, 1400):
        mind.drawn.add(drawn(cycle, cycle % 2))
        mind.drawn.earned(cycle, float(cycle % 2 == pays), 1)
    await life.run(12)

    [gated] = life.facts(AdapterGated)
    adapters = [one.decoding.adapter for one in life.facts(ActionDecided)]
    if pays:
        [promoted_] = life.facts(AdapterPromoted)
        assert (promoted_.adapter, promoted_.generation, promoted_.evidence) == (gated.adapter, 1, gated.id)
        assert adapters == [None] * 10 + [gated.adapter] * 2
        assert life.facts(PolicySet)[-1].evidence == gated.id
    else:
        [refused] = life.facts(AdapterRefused)
        assert "goes back" in refused.why
        assert adapters == [None] * 12
        assert learnt(file).choices <= 2
