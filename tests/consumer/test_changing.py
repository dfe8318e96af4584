"""The rules of a process that runs, changed to others: what each act is scored by, and that none is left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Bus, MemoryBus, shared_subscription
from conch.consumer.group.membership import joined
from conch.consumer.group.shared import SharedConsumer
from conch.consumer.host import HostedConsumer, host
from conch.consumer.plugins.reload import RuleReload
from conch.consumer.plugins.rule_process import rule_consumer
from conch.processes.messages import ConsumerDown, ConsumerReport
from conch.rules import RuleInfo
from conch_schemas import ActionTaken, RewardAssigned, WeightsSet, encode, subject_of

if TYPE_CHECKING:
    from tests.conftest import MakeAct, Until
    from tests.consumer.conftest import Facts


HEAD = (
    "import os, time\nfrom conch import rule\nfrom pydantic import BaseModel\n"
    "class Acts(BaseModel):\n    {field} = {first}\n"
)
PLAIN = HEAD.format(field="acts: int", first="0") + "@rule()\ndef {name}(action):\n    {wait}\n    return {value}\n"
FOLD = HEAD + "@rule(state=Acts)\ndef tested(state, action):\n    return state, {value}\n"


def plain(value: float = 0.25, name: str = "tested", wait: str = "pass", version: str = "1") -> RuleInfo:
    return RuleInfo(name, version, origin="rules.py", text=PLAIN.format(name=name, value=value, wait=wait))


def fold(value: float | str, field: str = "acts: int", first: str = "0", version: str = "1") -> RuleInfo:
    text = FOLD.format(value=value, field=field, first=first)
    return RuleInfo("tested", version, origin="rules.py", stateful=True, text=text)


class Town:
    """A process of rules that change, and what they say."""

    def __init__(self, bus: Bus, changing: RuleReload, until: Any, facts: Any) -> None:
        self.bus, self.changing, self.until, self.facts = bus, changing, until, facts
        self.told: list[ConsumerReport] = []

    def want(self, *plugins: RuleInfo) -> None:
        self.changing.want(plugins)

    async def said(self, act: ActionTaken, name: str = "tested") -> RewardAssigned:
        """Publish the act, wait for its score by that rule."""
        await self.bus.publish(subject_of(act), encode(act), id=act.id)
        return await self.score_of(act, name)

    async def score_of(self, act: ActionTaken, name: str = "tested") -> RewardAssigned:
        found: list[RewardAssigned] = []

        async def here() -> bool:
            said = await self.facts(self.bus, RewardAssigned)
            found[:] = [one for one in said if (one.causation_id, one.scorer) == (act.id, name)]
            return bool(found)

        await self.until(here, 30)
        return found[0]

    async def weigh(self, act: ActionTaken, version: str) -> None:
        """Another weight set is in force from here on."""
        event = WeightsSet(id=f"w{version}", source=act.source, agent=act.agent, version=version, parts=())
        await self.bus.publish(subject_of(event), encode(event), id=event.id)


@pytest.fixture
async def town(until: Until, facts: Facts) -> AsyncIterator[Town]:
    """A town that lives on a bus in memory."""
    async with living(until, facts) as made:
        yield made


@asynccontextmanager
async def living(until: Any, facts: Any) -> AsyncIterator[Town]:
    stop, running = asyncio.Event(), list[HostedConsumer]()
    async with MemoryBus() as bus, shared_subscription(bus) as shared_events, joined(bus, []) as members:

        def make(plugin: RuleInfo, begin: int) -> HostedConsumer:
            spec, worker = rule_consumer(plugin, timeout=10, memory_mib=512, begin=begin)
            return HostedConsumer(spec.name, lambda: SharedConsumer(spec, members), worker=worker)

        def report(report: ConsumerReport) -> None:
            town.told.append(report)

        changing = RuleReload(shared_events, running, make, agent="echo", patience=20.0, stop=stop, report=report)
        town = Town(bus, changing, until, facts)
        hosting = asyncio.create_task(host(shared_events, [], stop, report, changing.obey))
        try:
            yield town
        finally:
            stop.set()
            async with asyncio.timeout(30):
                await hosting
            for one in running:
                assert one.worker is not None
                await one.worker.close()


async def test_a_rule_changes_between_two_acts(town: Town, act: MakeAct) -> None:
    """Its function and its version, in the same consumer: each act is scored once."""
    acts = [act(cycle) for cycle in range(1, 4)]
    town.want(plain(0.25))
    first = await town.said(acts[0])
    town.want(plain(0.5))
    await town.until(lambda: town.changing._wanted is None)
    second = await town.said(acts[1])
    town.want(plain(0.75, version="2"))
    await town.until(lambda: town.changing._wanted is None)
    third = await town.said(acts[2])

    said = [(one.scores[0].value, one.version) for one in (first, second, third)]
    assert said == [(0.25, "1"), (0.5, "1"), (0.75, "2")]
    assert len(await town.facts(town.bus, RewardAssigned)) == 3


async def test_a_rule_that_goes_scores_what_was_done_in_its_time(town: Town, act: MakeAct, tmp_path: Path) -> None:
    """The acts before the weight set without it are waited for; those behind it are none of its."""
    acts, go = [act(cycle) for cycle in (1, 2, 3)], tmp_path / "go"
    town.want(plain(wait=f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"), plain(0.75, "other"))
    await town.said(acts[0], "other")
    await town.said(acts[1], "other")
    await town.weigh(acts[0], "2")
    town.want(plain(0.75, "other"))
    await town.until(lambda: town.changing._leaving)
    go.touch()
    await town.until(lambda: not town.changing._leaving, 30)
    await town.said(acts[2], "other")

    said = [one for one in await town.facts(town.bus, RewardAssigned) if one.scorer == "tested"]
    assert [(one.causation_id, one.scores[0].value) for one in said] == [(one.id, 0.25) for one in acts[:2]]


async def test_a_rule_that_comes_back_before_it_is_gone_stays(town: Town, act: MakeAct, tmp_path: Path) -> None:
    """Wanted, unwanted, wanted while it works: every act is scored once."""
    acts, go = [act(cycle) for cycle in (1, 2)], tmp_path / "go"
    slow = plain(wait=f"while not os.path.exists({str(go)!r}): time.sleep(0.01)")
    town.want(slow, plain(0.75, "other"))
    await town.said(acts[0], "other")
    await town.weigh(acts[0], "2")
    town.want(plain(0.75, "other"))
    await town.until(lambda: town.changing._leaving)
    town.want(replace(slow, version="2"), plain(0.75, "other"))
    await town.until(lambda: not town.changing._leaving)
    go.touch()

    assert (await town.score_of(acts[0])).version == "1"
    assert (await town.said(acts[1])).version == "2"


async def test_a_rule_becomes_one_of_another_kind(town: Town, act: MakeAct) -> None:
    """One that carries a state where one carried nothing: nothing is left out or scored twice."""
    acts = [act(cycle) for cycle in range(1, 4)]
    town.want(plain(0.25))
    await town.said(acts[0])
    town.want(fold("min(1.0, state.acts + 0.5)"))
    second = await town.said(acts[1])
    third = await town.said(acts[2])

    assert [one.scores[0].value for one in (second, third)] == [0.5, 0.5]
    assert len(await town.facts(town.bus, RewardAssigned)) == 3


async def test_a_rule_that_cannot_read_its_state_is_back_once_it_can(town: Town, act: MakeAct) -> None:
    """It is left down with one sentence, its neighbour scores on; the file mended, it scores what waited."""
    acts = [act(cycle) for cycle in (1, 2)]
    town.want(fold(0.25), plain(0.75, "other"))
    await town.said(acts[0])
    town.want(fold(0.5, "acts: dict[str, int]", "{}", "2"), plain(0.75, "other"))
    await town.said(acts[1], "other")
    await town.until(lambda: town.told, 30)
    town.want(fold(0.75, "acts: int | None", "None", "3"), plain(0.75, "other"))
    late = await town.score_of(acts[1])

    [told] = town.told
    assert isinstance(told, ConsumerDown)
    assert told.why.startswith("consumer rule-tested version 2 cannot read its state for agent echo")
    assert (late.version, late.scores[0].value) == ("3", 0.75)
