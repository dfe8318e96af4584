"""Six agents of a run that scores nothing itself, and workers in processes of their own, here and on other machines,
who share that: whatever becomes of them, each act is scored once, in its agent's order."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from conch.bus import Bus
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.consumer.group.membership import BEAT_SECONDS, LEASE_SECONDS
from conch_schemas import ActionTaken, RewardAssigned, decode, subject_filter
from tests.run.conftest import House, Live
from tests.run.servers import Server

AGENTS = [f"echo-{number}" for number in range(1, 7)]
T = TypeVar("T")


class Scene:
    """The bus, the run, and the machines."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._server = Server(directory / "server", "-js", "-sd", str(directory / "server" / "store"))
        self.environment = {"CONCH_BUS__URL": self._server.url, "CONCH_BUS__DURABILITY": "fast"}
        self.home = House(directory)
        self._machines: list[House] = []
        self.run = self.home.begin(
            "--agents",
            str(len(AGENTS)),
            "--without",
            "reward",
            "--script",
            self.home.endless(),
            interval=0.1,
            **self.environment,
            CONCH_REWARDS__DEADLINE="600",
        )

    def workers(self, *arguments: str) -> Live:
        """`conch consume reward` on another machine, that knows the bus and nothing else."""
        machine = House(self._directory / f"machine-{len(self._machines)}", furnished=True)
        self._machines.append(machine)
        return machine.start("consume", "reward", *arguments, **self.environment)

    def on_bus(self, ask: Callable[[Bus], Awaitable[T]]) -> T:
        """What the bus answers."""

        async def asked() -> T:
            async with JetStreamBus(Access(self._server.url)) as bus:
                return await ask(bus)

        return asyncio.run(asked())

    @property
    def holders(self) -> set[str]:
        """The workers that hold a share, or the empty name where one is nobody's."""
        entry = self.on_bus(lambda bus: bus.get("position/reward"))
        told = json.loads(entry.value) if entry is not None and entry.value else {"shares": {"0": (0, "")}}
        return {holder.rpartition(".")[0] for _, holder in told["shares"].values()}

    def pid(self, worker: str) -> int:
        """Of a worker, as its last sign of life tells; 0 while it is taken for dead."""
        entry = self.on_bus(lambda bus: bus.get(f"worker/{worker}"))
        assert entry is not None
        return int(json.loads(entry.value)["pid"]) if entry.value else 0

    def scored(self, at_work: Live) -> None:
        """Wait until what was done up to now is scored: each act once, each agent's in order."""
        acts = self.on_bus(lambda bus: _ids(bus, ActionTaken))

        def is_scored() -> bool:
            scores = self.on_bus(lambda bus: _ids(bus, RewardAssigned))
            for agent in AGENTS:
                assert scores[agent] == sorted(set(scores[agent]))
            return all(set(acts[agent]) <= set(scores[agent]) for agent in AGENTS)

        at_work.until(is_scored, "the scores")

    def close(self) -> None:
        """Everything ends."""
        for house in (*self._machines, self.home):
            house.close()
        self._server.close()


async def _ids(bus: Bus, kind: Any) -> dict[str, list[int]]:
    """The cycles of these facts by agent, as they stand on the stream; of scores, those of the workers' consumer."""
    found: dict[str, list[int]] = {agent: [] for agent in AGENTS}
    async for delivery in bus.read([subject_filter(kind)]):
        event = decode(delivery.data)
        if not isinstance(event, RewardAssigned) or event.scorer == "reward":
            found[event.agent].append(event.cycle or 0)
    return found


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The run goes on through all tests here."""
    made = Scene(tmp_path_factory.mktemp("scene"))
    made.run.until(lambda: made.on_bus(_has_acts), "acts")
    yield made
    made.close()


async def _has_acts(bus: Bus) -> bool:
    return all((await _ids(bus, ActionTaken)).values())


@pytest.fixture(scope="module")
def two(scene: Scene) -> Live:
    """Two workers, by one command."""
    live = scene.workers("--workers", "2")
    live.until(lambda: len(scene.holders - {""}) == 2, "two workers")
    return live


def test_two_workers_score_each_act_once_in_order(scene: Scene, two: Live) -> None:
    """What was done before they came, and what is done since; they are one consumer to who looks."""
    scene.scored(two)

    def level() -> bool:
        told = json.loads(scene.home.conch("consumer", "list", "--json", **scene.environment))
        [reward] = [one for one in told["consumers"] if one["name"] == "reward"]
        return bool(reward["lag"] < 10 * len(AGENTS))

    two.until(level, "a lag of less than ten events of each agent")
    assert two.running


def test_a_worker_that_dies_is_started_again_and_has_its_share_back(scene: Scene, two: Live) -> None:
    """Under its old name: nobody waits until it is taken for dead."""
    before = scene.holders
    victim = sorted(before)[0]
    pid = scene.pid(victim)
    os.kill(pid, signal.SIGKILL)

    two.says(r"worker reward \d died \(SIGKILL\) and is started again")

    two.until(lambda: scene.pid(victim) not in (0, pid), "its successor")
    two.until(lambda: scene.holders == before, "its share")
    scene.scored(two)


def test_who_joins_on_another_machine_and_is_killed_there_hands_on(scene: Scene, two: Live) -> None:
    """It takes a share of each of the others'; nobody starts it again, and they have theirs back after its lease."""
    before = scene.holders
    third = scene.workers()
    third.until(lambda: len(scene.holders) == 3, "its share")
    third.signal(signal.SIGKILL)

    two.until(lambda: scene.holders == before, f"the others within {LEASE_SECONDS + BEAT_SECONDS:g} s")

    scene.scored(two)
    assert third.ended() == -signal.SIGKILL


@pytest.mark.torture
def test_workers_killed_at_random_moments_lose_and_double_nothing(scene: Scene, two: Live) -> None:
    """Either of them, again and again, in the middle of whatever it does."""
    draw, names = random.Random(5), sorted(scene.holders)
    for number in range(6):
        pid = scene.pid(names[number % 2])
        scene.run.recorded(draw.randrange(1, 20))
        os.kill(pid, signal.SIGKILL)
        two.until(lambda pid=pid, name=names[number % 2]: scene.pid(name) not in (0, pid), "its successor")  # type: ignore[misc]

    scene.scored(two)


def test_workers_that_are_ended_let_go_at_once(scene: Scene, two: Live) -> None:
    """What they had in hand is finished; who comes next need not wait for their lease, and scores the rest."""
    two.signal(signal.SIGTERM)
    assert two.ended() == 0, two.told()
    assert scene.holders == {""}

    last = scene.workers()
    last.until(lambda: len(scene.holders - {""}) == 1, "its share")
    scene.scored(last)
    scene.run.signal(signal.SIGTERM)
    assert scene.run.ended() == 0, scene.run.told()

    scene.scored(last)
    last.signal(signal.SIGINT)
    assert last.ended() == 0, last.told()
    assert "Traceback" not in last.said + two.said + scene.run.said
