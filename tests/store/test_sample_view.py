"""A sampler's view is what the store holds, whatever is recorded, revised, moved, removed, undone or killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from conch.errors import ContractError, SampleError
from conch.experience import MemoryStore, RetentionLimits, SqliteReader, SqliteStore
from conch.experience.queries import prune
from conch.experience.sample import ExperienceSampler, SampleView
from tests.store.conftest import NOW, Facts, apply

AGENTS = ("echo", "delta")
KEPT = 2
SIZE = 5


def columns(view: SampleView) -> list[tuple[Any, ...]]:
    """(act, seq, cycle, total) of each experience in the view, by seq."""
    names = ("act", "seq", "cycle", "total")
    return sorted(zip(*(view.column(name).tolist() for name in names), strict=True), key=lambda row: row[1])


def truth(store: SqliteReader, agent: str | None, size: int) -> list[tuple[Any, ...]]:
    """The same of the store's rows."""
    return [(row.act, row.seq, row.cycle, row.total) for row in store.sampling.newest(agent, size).rows]


class Life(RuleBasedStateMachine):
    """A store that is written to, and views of it."""

    acts = Bundle("acts")

    def __init__(self) -> None:
        super().__init__()
        self.facts = Facts()
        self.store = MemoryStore()
        self.cycle = dict.fromkeys(AGENTS, 0)
        self.revision = 1
        self.free = 1000
        """The places before it, behind the weight sets, are free."""

    @initialize()
    def begin(self) -> None:
        apply(self.store, *(self.facts.weights(agent=agent) for agent in AGENTS))
        self.store.apply([], upto=self.free, now=NOW)
        self.samplers = [
            ExperienceSampler(self.store.sampling, agent=agent, size=size)
            for agent, size in ((None, SIZE), ("echo", 3), (None, 1000))
        ]

    @rule(target=acts, agent=st.sampled_from(AGENTS), step=st.integers(1, 3))
    def act(self, agent: str, step: int) -> tuple[str, int]:
        """An act whose scores come at once."""
        self.cycle[agent] += step
        # Agents share one made-up uid: their cycles must differ for their actions to.
        number = 2 * self.cycle[agent] + AGENTS.index(agent)
        apply(self.store, *self.facts.judged(number, agent))
        return agent, number

    @rule(target=acts, agent=st.sampled_from(AGENTS))
    def late(self, agent: str) -> tuple[str, int]:
        """An act that waits: it is recorded later, at its old place."""
        self.cycle[agent] += 1
        number = 2 * self.cycle[agent] + AGENTS.index(agent)
        apply(self.store, self.facts.act(number, agent), now=self.facts.at(number))
        return agent, number

    @rule(act=acts, value=st.floats(-0.3, 1.0))
    def rescore(self, act: tuple[str, int], value: float) -> None:
        """A newer version's score, of an act that may be removed by now."""
        self.revision += 1
        version = str(self.revision)
        score = self.facts.score("execution", value, version=version)
        apply(self.store, self.facts.reward(act[1], score, version=version, agent=act[0]))

    @rule(act=consumes(acts))
    def again(self, act: tuple[str, int]) -> None:
        """The stream brings the act a second time, at an earlier place."""
        self.free -= 1
        self.store.apply([(self.free, self.facts.act(act[1], act[0]))], upto=self.store.position(), now=NOW)

    @rule()
    def expire(self) -> None:
        """What waited is recorded as it is."""
        self.store.expire(NOW + timedelta(days=1))

    @rule(seconds=st.integers(1, 40))
    def prune(self, seconds: int) -> None:
        """The oldest cycles go."""
        newest = max(self.cycle.values()) * 2
        self.store.prune(RetentionLimits(seconds=float(seconds)), self.facts.at(newest, 1.0))

    @rule(agent=st.sampled_from(AGENTS))
    def undone(self, agent: str) -> None:
        """A batch of which nothing is stored, as its last fact cannot be placed."""
        facts = self.facts.judged(2 * (self.cycle[agent] + 1) + AGENTS.index(agent), agent)
        broken = self.facts.act(0, agent).model_copy(update={"cycle": None})
        places = list(enumerate([*facts, broken], self.store.position() + 1))
        with pytest.raises(ContractError):
            self.store.apply(places, upto=places[-1][0], now=NOW)

    @precondition(lambda self: any(self.cycle.values()))
    @rule(which=st.integers(0, 2), count=st.integers(1, 20), how=st.sampled_from(["prioritised", "uniform", "recent"]))
    def draw(self, which: int, count: int, how: str) -> None:
        """Only what the store holds is drawn, with the totals that it has."""
        sampler = self.samplers[which]
        sampler.refresh()
        if len(sampler) == 0:
            with pytest.raises(SampleError):
                sampler.uniform(1)
            return
        batch = getattr(sampler, how)(count)

        experiences = sampler.experiences(batch)

        assert [one and one.total for one in experiences] == batch.totals.tolist()

    @invariant()
    def in_step(self) -> None:
        """Every view is the newest rows."""
        for sampler, (agent, size) in zip(
            getattr(self, "samplers", ()), ((None, SIZE), ("echo", 3), (None, 1000)), strict=False
        ):
            sampler.refresh()
            assert columns(sampler.view) == truth(self.store, agent, size)

    def teardown(self) -> None:
        self.store.close()


@pytest.fixture(autouse=True)
def few_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cycles of each agent stay in any case, instead of a hundred."""
    monkeypatch.setattr(prune, "KEPT_CYCLES", KEPT)
    monkeypatch.setattr(prune, "_PORTION", 3)


def test_a_view_is_the_newest_rows_whatever_happens() -> None:
    """Recorded, late, revised, moved, removed, undone: views of three sizes always say what the store does."""
    case = Life.TestCase
    case.settings = settings(
        max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
    )
    case("runTest").debug()


WRITER = """
    import sys
    from conch.experience import SqliteStore
    from tests.store.conftest import Facts, apply
    facts, store = Facts(), SqliteStore(sys.argv[1])
    first = 1 + (store.cycles.last_cycle("echo") or 0)
    apply(store, facts.weights())
    for cycle in range(first, first + 100000):
        apply(store, *facts.judged(cycle))
        version = str(cycle)
        apply(store, facts.reward(max(1, cycle - 3), facts.score("execution", 0.4, version=version), version=version))
        print(cycle, flush=True)
"""


def test_a_view_is_in_step_after_the_writer_was_killed(tmp_path: Path) -> None:
    """Killed at any moment, three times: what was acknowledged is in the view, and the view is what the file holds."""
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    root = Path(__file__).parents[2]
    with SqliteReader(path) as reader:
        sampler = ExperienceSampler(reader.sampling, size=20)
        for kill in range(3):
            writer = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(WRITER), str(path)], cwd=root, stdout=subprocess.PIPE, text=True
            )
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(15 + kill)]
            sampler.refresh()
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            writer.stdout.close()

            sampler.refresh()

            assert int(lines[-1]) <= sampler.view.column("cycle").max()
            assert columns(sampler.view) == truth(reader, None, 20)
