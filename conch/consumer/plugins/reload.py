"""`conch run --reload`: replaces the plug-in rules of a running process when their files change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from conch.bus import Bus, SharedSubscription
from conch.consumer.host import HostedConsumer, keep
from conch.consumer.plugins.rule_state import carried_by
from conch.log import get_logger
from conch.processes import ConsumerReport
from conch.rules import RuleInfo
from conch_schemas import WeightsSet, subject_filter

log = get_logger(__name__)

LOOK_SECONDS = 0.1
"""Seconds between two checks whether a removed rule has scored all that it has to."""


async def weighed(bus: Bus, agent: str) -> int:
    """The stream sequence of the weight set in force, 0 where there is none: a new rule scores from there on."""
    found = await bus.last(subject_filter(WeightsSet, agent))
    return found.seq if found is not None else 0


class RuleReload:
    """The plug-in rules that a process runs, and the change to another set."""

    def __init__(
        self,
        shared_events: SharedSubscription,
        running: list[HostedConsumer],
        make: Callable[[RuleInfo, int], HostedConsumer],
        *,
        agent: str,
        patience: float,
        stop: asyncio.Event,
        report: Callable[[ConsumerReport], None],
    ) -> None:
        """`running`: all consumers of this process; new rules are added there, old ones removed. `make`: makes a rule
        that begins behind the given sequence, unless it has a position. `patience`: seconds that an experience waits
        for a score."""
        self._shared_events, self._running, self._make, self._agent = shared_events, running, make, agent
        self._patience, self._stop, self._report = patience, stop, report
        self._keeping: dict[str, asyncio.Task[None]] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._wanted: Sequence[RuleInfo] | None = None
        """The rules that are wanted and not applied yet."""
        self._news = asyncio.Event()

    def want(self, rules: Sequence[RuleInfo]) -> None:
        """Set the rules to run from now on; all others are removed."""
        self._wanted = rules
        self._news.set()

    async def obey(self, group: asyncio.TaskGroup) -> None:
        """Run the rules, and bring about what is wanted, until `stop`. Runs in `group`, as the rules do."""
        for one in self._running:
            if one.worker is not None:
                self._begin(group, one)
        stopping = group.create_task(self._stop.wait(), name="conch.changing.stop")
        stopping.add_done_callback(lambda _: self._news.set())
        while True:
            await self._news.wait()
            self._news.clear()
            if self._stop.is_set():
                return
            wanted, self._wanted = self._wanted, None
            if wanted is not None:
                await self._change(group, {rule.consumer: rule for rule in wanted})

    async def _change(self, group: asyncio.TaskGroup, wanted: dict[str, RuleInfo]) -> None:
        weighed_at = await weighed(self._shared_events.bus, self._agent)
        for one in [one for one in self._running if one.worker is not None]:
            rule = wanted.pop(one.name, None)
            if rule is None:
                if one.name not in self._leaving:
                    leaving = group.create_task(self._leave(one, weighed_at), name=f"conch.{one.name}.leave")
                    self._leaving[one.name] = leaving
                continue
            await _ended(self._leaving.pop(one.name, None))
            assert one.worker is not None
            if carried_by(rule) is not carried_by(one.worker.rule):
                await self._end(one)
                wanted[rule.consumer] = rule
                continue
            one.worker.become(rule)
            if self._keeping[one.name].done():  # it was left down, for a state that it could not read
                self._begin(group, one)
        for rule in wanted.values():
            made = self._make(rule, weighed_at)
            self._running.append(made)
            self._begin(group, made)

    def _begin(self, group: asyncio.TaskGroup, one: HostedConsumer) -> None:
        keeping = keep(self._shared_events, one, self._stop, self._report)
        self._keeping[one.name] = group.create_task(keeping, name=f"conch.{one.name}")

    async def _leave(self, one: HostedConsumer, upto: int) -> None:
        """Stop the rule once it has scored the acts from its time in force, or no experience waits for them any
        more."""
        try:
            async with asyncio.timeout(self._patience):
                while not self._stop.is_set() and not one.down and (one.now is None or (one.now.handled or 0) < upto):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            log.warning("reward.rule_left_acts_unscored", consumer=one.name)
        if not self._stop.is_set():
            await self._end(one)
            self._leaving.pop(one.name, None)

    async def _end(self, one: HostedConsumer) -> None:
        """At once: what it has in hand it would do again if it came back."""
        assert one.worker is not None
        await _ended(self._keeping.pop(one.name))
        await one.worker.close()
        self._running.remove(one)


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
