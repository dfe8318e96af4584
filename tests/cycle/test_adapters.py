"""An agent decides under the adapter that its pointer names, and says so; what cannot be proven does not act."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import MemoryBus, PolicyRecord, TrialRecord, policy_key
from conch.cycle.acting.adapters import ActingAdapters
from conch.cycle.acting.engine import ServedEngineAdapters
from conch.cycle.acting.pointer import PointerReader
from conch.cycle.acting.proven import AdapterProof, ProvenAdapters
from conch.minds import MindFactory
from conch.training import (
    AdapterShelf,
    ShelvedAdapter,
    arm_of,
    fetch_adapter,
    move_pointer,
    on_trial,
    promoted,
    rolled_back,
    send_adapter,
    served_name,
)
from conch_schemas import ActionDecided, ActionTaken, AdapterProbed, AdapterShadowed, PolicySet
from tests.adapter_engine import BASE, AdapterEngine, mark_of
from tests.shelved import shelve

if TYPE_CHECKING:
    from tests.cycle.conftest import Life


@pytest.fixture
def engine() -> Iterator[AdapterEngine]:
    with AdapterEngine().serving() as serving:
        yield serving


@dataclass
class Adapted:
    """An agent whose model takes adapters."""

    life: Any
    engine: AdapterEngine
    shelf: AdapterShelf
    made: list[ShelvedAdapter]

    async def point(self, change: Any) -> PolicyRecord:
        """Move the pointer."""
        async with MemoryBus(self.life.journal) as bus:
            return (await move_pointer(bus, self.life.settings.agent, change))[1]

    async def promote(self, number: int) -> None:
        """Let this one act."""
        adapter = self.made[number]
        evidence = f"e{number}"
        await self.point(lambda before: promoted(before, adapter.digest, number + 1, why="better", evidence=evidence))

    def acts(self) -> list[tuple[str | None, str]]:
        """For each act: digest of the adapter that it names, and the mark of the weights that replied."""
        decided = self.life.facts(ActionDecided)
        return [(one.decoding.adapter, one.raw.split()[1]) for one in decided]

    def honest(self) -> bool:
        """Whether each act names the adapter that decided it, in its record and in the content of its policy."""
        marks = {None: mark_of(None)} | {one.digest: mark_of(one.folder) for one in self.made}
        content = {one.policy: one.adapter for one in self.life.facts(PolicySet)}
        return all(
            marks[one.decoding.adapter] == one.raw.split()[1] and content[one.policy] == one.decoding.adapter
            for one in self.life.facts(ActionDecided)
        )


@pytest.fixture
async def adapted(life: Life, engine: AdapterEngine, tmp_path: Path) -> AsyncIterator[Adapted]:
    life.configured(
        mind={"kind": "openai", "base_url": engine.url, "model": BASE, "constrain": "off", "adapters": "vllm"}
    )
    shelf = AdapterShelf(tmp_path / "adapters")
    made = [shelve(shelf, life.agentuid, generation) for generation in (1, 2, 3)]
    life.adapters = ProvenAdapters(ServedEngineAdapters(life.settings.mind), shelf)
    async with MindFactory(life.settings.mind) as factory:
        life.mind = factory.make(seed=0, memory=tmp_path / "reflex.npz")
        yield Adapted(life, engine, shelf, made)


async def test_without_a_pointer_the_base_decides(adapted: Adapted) -> None:
    """The policy is what it is for a mind without adapters."""
    await adapted.life.run(2)
    policy = adapted.life.facts(PolicySet)[0].policy
    adapted.life.adapters = None
    await adapted.life.run(4)

    assert [adapter for adapter, _ in adapted.acts()] == [None] * 4
    assert {one.policy for one in adapted.life.facts(PolicySet)} == {policy}


async def test_an_act_is_of_the_adapter_that_the_pointer_names(adapted: Adapted) -> None:
    """Record, policy and weights agree; the policy says base, generation and evidence. A thought is the base's."""
    first, second, _ = adapted.made
    await adapted.life.run(1)
    await adapted.promote(0)
    await adapted.life.run(2)
    await adapted.promote(1)
    await adapted.life.run(3)

    assert [adapter for adapter, _ in adapted.acts()] == [None, first.digest, second.digest]
    assert adapted.honest()
    said = adapted.life.facts(PolicySet)
    assert [(one.adapter, one.base, one.generation, one.evidence) for one in said] == [
        (None, "", None, ""), (first.digest, BASE, 1, "e0"), (second.digest, BASE, 2, "e1")
    ]  # fmt: skip
    taken, decided = adapted.life.facts(ActionTaken), adapted.life.facts(ActionDecided)
    assert [one.policy for one in taken] == [one.policy for one in decided] == [one.policy for one in said]


async def test_a_move_back_counts_from_the_next_cycle_on(adapted: Adapted) -> None:
    """What acted before acts again, and was loaded all the time."""
    first, second, _ = adapted.made
    await adapted.promote(0)
    await adapted.life.run(1)
    await adapted.promote(1)
    await adapted.life.run(2)
    await adapted.point(lambda before: rolled_back(before, second.digest, why="worse"))
    await adapted.life.run(3)

    assert [adapter for adapter, _ in adapted.acts()] == [first.digest, second.digest, first.digest]
    assert len(adapted.life.facts(AdapterProbed)) == 2
    assert adapted.honest()


@pytest.mark.parametrize("fault", ["applies", "loads", "file", "lineage", "record"])
async def test_what_cannot_be_proven_does_not_act(adapted: Adapted, fault: str) -> None:
    """An engine that applies nothing or takes no adapter, a changed file, an adapter of another agent: the one before
    it acts, and that is published."""
    first, second, _ = adapted.made
    await adapted.promote(0)
    await adapted.life.run(1)
    if fault in ("applies", "loads"):
        setattr(adapted.engine, fault, False)
        adapted.engine.loaded.clear()
    elif fault == "file":
        (second.folder / "adapter_config.json").write_text("{}")
    elif fault == "lineage":
        adapted.made[1] = shelve(adapted.shelf, "11111111-1111-4111-8111-111111111111", 7)
    else:
        adapted.shelf.record_probe(second.digest, "openai", first.probe("openai"))
    await adapted.promote(1)
    await adapted.life.run(3)

    expected = None if fault in ("applies", "loads") else first.digest
    assert [adapter for adapter, _ in adapted.acts()] == [first.digest, expected, expected]
    assert adapted.honest()
    unproven = [one for one in adapted.life.facts(AdapterProbed) if not one.proven]
    assert unproven[0].adapter == adapted.made[1].digest
    assert unproven[0].why


async def test_an_engine_that_lost_the_adapter_loads_it_again(adapted: Adapted) -> None:
    """After a restart the engine knows no adapter: the same cycle goes on under it, loaded and proven once more."""
    await adapted.promote(0)
    running = adapted.life
    await running.run(1)
    adapted.engine.loaded.clear()
    await running.run(2)

    assert [adapter for adapter, _ in adapted.acts()] == [adapted.made[0].digest] * 2
    assert [one.proven for one in running.facts(AdapterProbed)] == [True, True]
    assert adapted.honest()


async def test_a_cycle_that_a_crash_interrupted_is_of_the_same_arm(
    adapted: Adapted,
) -> None:
    """Block and hash say the arm of each cycle, in every process the same."""
    first, second, _ = adapted.made
    await adapted.promote(0)
    trial = TrialRecord(adapter=second.digest, generation=2, stage="canary", begun=0, block=1, evidence="gate")
    await adapted.point(lambda before: on_trial(before, trial))
    for at in (6, 7, 8, 9, 10):
        await adapted.life.crash(100, at, stored=at % 2 == 0)
    await adapted.life.run(12)

    arms = [arm_of(second.digest, adapted.life.agentuid, cycle, block=1, share=0.5) for cycle in range(12)]
    by_arm = {"candidate": second.digest, "incumbent": first.digest}
    assert [adapter for adapter, _ in adapted.acts()] == [by_arm[arm] for arm in arms]
    assert adapted.honest()
    assert {one.evidence for one in adapted.life.facts(PolicySet) if one.adapter == second.digest} == {"gate"}


async def test_a_candidate_in_the_shadow_is_asked_and_does_not_act(adapted: Adapted) -> None:
    """Its reply to the same prompt is published beside the act; nothing of it is run."""
    first, second, _ = adapted.made
    await adapted.promote(0)
    trial = TrialRecord(adapter=second.digest, generation=2, stage="shadow", begun=1, round="e" * 64)
    await adapted.point(lambda before: on_trial(before, trial))
    await adapted.life.run(4)

    acts, shadows = adapted.life.facts(ActionTaken), adapted.life.facts(AdapterShadowed)
    assert [adapter for adapter, _ in adapted.acts()] == [first.digest] * 4
    assert [one.cycle for one in shadows] == [1, 2]
    for shadow in shadows:
        act = acts[shadow.cycle]
        assert (shadow.adapter, shadow.causation_id, shadow.round) == (second.digest, act.id, "e" * 64)
        assert shadow.decoding.prompt_sha256 == act.decoding.prompt_sha256
        assert shadow.raw.split()[1] == mark_of(second.folder)


async def test_the_last_known_pointer_holds_while_it_cannot_be_read(adapted: Adapted) -> None:
    """A pointer that is damaged, and a bus that is away, change nothing for a running agent."""

    async def told(_: AdapterProof) -> None:
        pass

    await adapted.promote(0)
    name = adapted.life.settings.agent
    async with MemoryBus(adapted.life.journal) as bus:
        pointer = PointerReader(bus, name, adapted.life.agentuid)
        adapters = ActingAdapters(pointer, adapted.life.adapters, told)
        before = await adapters.of_cycle(0)
        entry = await bus.get(policy_key(name))
        assert entry is not None
        await bus.put(policy_key(name), b"{", revision=entry.revision)
        damaged = await adapters.of_cycle(1)
    away = await adapters.of_cycle(2)

    assert before is not None
    assert before.digest == adapted.made[0].digest
    assert before == damaged == away


async def test_a_pointer_is_read_again_after_a_long_thought(adapted: Adapted) -> None:
    """A move between the beginning of a cycle and its decision counts for that decision."""
    moments = iter((0.0, 0.1, 10.0))

    async def told(_: AdapterProof) -> None:
        pass

    async with MemoryBus(adapted.life.journal) as bus:
        name = adapted.life.settings.agent
        pointer = PointerReader(bus, name, adapted.life.agentuid, lambda: next(moments))
        adapters = ActingAdapters(pointer, adapted.life.adapters, told)
        begun = await adapters.of_cycle(0)
        await adapted.promote(0)
        soon, later = await adapters.of_cycle(0), await adapters.of_cycle(0)

    assert begun is None
    assert soon is None
    assert later is not None
    assert later.digest == adapted.made[0].digest


async def test_what_no_pointer_names_is_unloaded(adapted: Adapted) -> None:
    """The one that acts and the one before it stay loaded; older ones make room."""
    for number in range(3):
        await adapted.promote(number)
        await adapted.life.run(number + 1)

    names = {served_name(one.digest) for one in adapted.made[1:]}
    assert set(adapted.engine.loaded) == names


async def test_an_adapter_that_is_lost_within_a_cycle_is_not_named_by_its_act(adapted: Adapted) -> None:
    """It was proven as the cycle began, and is gone as the decision is asked for: the base decides, and the act's
    policy is the base's."""
    await adapted.promote(0)
    await adapted.life.run(1)
    adapted.engine.forgets = True
    await adapted.life.run(3)

    assert [adapter for adapter, _ in adapted.acts()] == [adapted.made[0].digest, None, None]
    assert adapted.honest()
    assert [one.proven for one in adapted.life.facts(AdapterProbed)] == [True, False]


async def test_an_agent_of_another_home_gets_the_adapter_by_the_bus(adapted: Adapted, tmp_path: Path) -> None:
    """Its own shelf is empty: the adapter that the pointer names arrives, is proven there, and decides."""
    shelf = AdapterShelf(tmp_path / "elsewhere" / "adapters")
    async with MemoryBus(adapted.life.journal) as bus:
        await send_adapter(bus, adapted.shelf, adapted.made[0].digest)
        adapted.life.adapters = ProvenAdapters(
            ServedEngineAdapters(adapted.life.settings.mind), shelf, fetch=partial(fetch_adapter, bus, shelf)
        )
        await adapted.promote(0)
        await adapted.life.run(2, MemoryBus(adapted.life.journal))

    assert shelf.digests() == [adapted.made[0].digest]
    assert {adapter for adapter, _ in adapted.acts()} == {adapted.made[0].digest}
    assert adapted.honest()
