"""One run from its command to its end, and its figures a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from live import LiveRun, Moment, acted, facts, kind_of, latencies, live

from conch_schemas import ExperienceRecorded
from run.sizes import Sizes, sizes
from run.syncs import counted

SYNCING = ("nats-server", "consumers", "agent")
"""The processes that write to the disk."""
PROCESSES = ("agent", "consumers", "nats-server", "dashboard", "run")
"""Of a run; `run` is the supervisor."""


@dataclass(frozen=True)
class Measured:
    """A run between two moments after each agent's first cycle."""

    mind: str
    agents: int
    processes: int
    """Agent processes."""
    first: float
    """Seconds from the command to the first recorded experience."""
    before: Moment
    after: Moment
    pss: dict[str, int]
    """Bytes by kind of process at the end; a page that several share is divided among them."""
    sizes: tuple[Sizes, Sizes]
    """Around the two moments."""
    syncs: dict[str, int]
    """Calls between the moments by kind of process; empty where they cannot be counted."""
    recorded: int
    """Experiences that the stream stored between the moments."""
    waited: list[float]
    """Milliseconds from act to recorded, of each act between the moments."""

    @property
    def cpu(self) -> dict[str, float]:
        """Milliseconds a cycle by process; `all` is their sum."""
        spent = {name: self.after.cpu[name] - self.before.cpu[name] for name in self.after.cpu}
        each = {name: seconds * 1000 / max(1, self.recorded) for name, seconds in spent.items()}
        return each | {"all": sum(each.values())}


def measure(
    agents: int,
    mind: str,
    meanwhile: Callable[[LiveRun], None],
    warm: Callable[[LiveRun], None] = lambda run: None,
    count: int = 1,
) -> Measured:
    """One run at full speed, strict, in a home of its own. `meanwhile` returns when the measured time is over, `warm`
    when it may begin, after each agent's first cycle. `count`: agent processes."""
    with live(agents, mind, processes=count) as run:
        first = run.until_each(agents)
        warm(run)
        small = sizes(run.home)
        processes = run.processes()
        with counted({name: one.pid for name, one in processes.items() if kind_of(name) in SYNCING}) as syncs:
            before = run.moment()
            meanwhile(run)
            after = run.moment()
        pss = by_kind({name: process.memory_full_info().pss for name, process in processes.items()})
        large = sizes(run.home)
        run.end()
        found = facts(run.home)
    recorded = [cycle[ExperienceRecorded][0] for cycle in found if ExperienceRecorded in cycle]
    between = sum(before.time <= at < after.time for at in recorded)
    waited = latencies(acted(found, before.time, after.time))[1]
    return Measured(mind, agents, count, first, before, after, pss, (small, large), by_kind(syncs), between, waited)


def by_kind(figures: Mapping[str, int]) -> dict[str, int]:
    """The sums of the processes of each kind."""
    found: dict[str, int] = {}
    for name, figure in figures.items():
        found[kind_of(name)] = found.get(kind_of(name), 0) + figure
    return found
