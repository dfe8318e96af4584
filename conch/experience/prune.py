"""Retention in the writer: which cycles are to be removed next, and which facts come for acts that were removed."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from conch.experience.models import PruneResult, RetentionLimits
from conch.experience.opened import OpenStore
from conch.experience.queries.cycles import agents_that_acted
from conch.experience.queries.owned import OwnedPartitions
from conch.experience.queries.prune import oldest, prune_agent
from conch.experience.queries.retention import removed_upto
from conch.experience.transaction import stamp
from conch.experience.write_batch import numbers_of
from conch_schemas import Event, MarkWitnessed, ReviewDecided

AGE, SIZE = "store.keep.days", "store.keep.gib"
"""Why something was removed."""

PRUNE_SECONDS: Final = 0.02
"""Work of one call of `Pruner.remove`, about."""


class Pruner:
    """Of one writer: it removes cycles of the agents that the writer owns. What it knows of removals is read when it is
    made, and after each removal: it is made anew where other agents are owned."""

    def __init__(self, file: OpenStore, owned: OwnedPartitions) -> None:
        self._file, self._owned = file, owned
        self._removed = removed_upto(file)
        """Agent -> its last removed cycle and mark."""
        self._agents: list[tuple[float, str]] | None = None
        """A heap of (time of its first act, agent); None: not looked for."""
        self._unverified: set[str] = set()
        """Agents whose marks stay, because they do not verify."""

    def is_due(self, keep: RetentionLimits, now: datetime) -> bool:
        """Whether something is beyond what is kept."""
        if not self._agents:  # none: the last look found nothing more to remove
            self._agents = self._oldest_agents()
        if self._next(keep, now) is None:
            self._agents = None
            return False
        return True

    def remove(self, keep: RetentionLimits, now: datetime) -> PruneResult:
        """Remove some of what is beyond what is kept, within the caller's transaction, after `is_due` was true."""
        pruned = PruneResult()
        ends = time.perf_counter() + PRUNE_SECONDS
        while (due := self._next(keep, now)) is not None:
            if pruned.acts and time.perf_counter() >= ends:
                break
            agent, before, why = due
            with_marks = agent not in self._unverified
            removed = prune_agent(self._file.db, agent, before, why, now, pruned, with_marks=with_marks)
            self._put_back(agent, oldest(self._file.db, agent) if removed else None)
        return pruned

    def committed(self, pruned: PruneResult) -> None:
        """Know what `remove` removed: its transaction has ended."""
        self._unverified |= pruned.unverified
        self._removed = removed_upto(self._file)

    def removed_actions(self, facts: Iterable[tuple[int, Event]]) -> set[str]:
        """Which of these facts' actions were removed: by their cycle, and because nothing is known of them."""
        if not self._removed:
            return set()
        asked = {
            action
            for _, event in facts
            if event.cycle is not None and event.cycle <= self._removed.get(event.agent, (-1, -1))[0]
            if (action := event.mark.action_id if isinstance(event, MarkWitnessed) else event.action_id) is not None
        }
        with self._file.reading() as db:
            return asked - {action for action, _ in numbers_of(db, asked)}

    def kept(self, facts: list[tuple[int, Event]], actions: set[str]) -> list[tuple[int, Event]]:
        """Those of the facts that are not about what was removed, `actions` among it."""
        return [fact for fact in facts if not self._is_removed(fact[1], actions)] if self._removed else facts

    def _is_removed(self, event: Event, actions: set[str]) -> bool:
        """A later mark about a removed act is not removed: the chain needs it. Nor is a decision on a row: exported
        rows are asked for by their hashes."""
        if isinstance(event, ReviewDecided):
            return False
        if isinstance(event, MarkWitnessed):
            return event.mark.sequence <= self._removed.get(event.agent, (-1, -1))[1]
        return event.action_id in actions

    def _oldest_agents(self) -> list[tuple[float, str]]:
        agents = filter(self._owned.has, agents_that_acted(self._file))
        with self._file.reading() as db:
            found = [(first, agent) for agent in agents if (first := oldest(db, agent)) is not None]
        heapq.heapify(found)
        return found

    def _put_back(self, agent: str, first: float | None) -> None:
        """The agent, which is on top of the heap, with the time of its first act now; None: nothing of it may go."""
        assert self._agents is not None
        if first is None:
            heapq.heappop(self._agents)
        else:
            heapq.heapreplace(self._agents, (first, agent))

    def _next(self, keep: RetentionLimits, now: datetime) -> tuple[str, float, str] | None:
        """(agent, time before which its acts may go, why); None: nothing is beyond what is kept."""
        if not self._agents:
            return None
        first, agent = self._agents[0]
        young = stamp(now) - keep.grace
        old = float("-inf") if keep.seconds is None else min(young, stamp(now) - keep.seconds)
        if first < old:
            return agent, old, AGE
        if keep.bytes is not None and first < young and self._file.bytes_used() > keep.bytes:
            return agent, young, SIZE
        return None
