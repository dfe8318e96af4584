"""Draws experiences from a store: uniform, the newest, by priority, balanced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.errors import SampleError, UsageError
from conch.experience.sample.limiter import SampleLimiter
from conch.experience.sample.priority import HEADROOM, PriorityRule, importance
from conch.experience.sample.tree import SumTree
from conch.experience.sample.view import SampleView
from conch.experience.store import SampleReader
from conch_schemas import ExperienceRecorded

VIEW: Final = 10_000
"""Newest experiences that are drawn from where the caller names no number."""
_REBUILD: Final = 8
"""Where more than one slot in so many changed, the tree is built anew."""


class SampleBatch(NamedTuple):
    """Experiences that were drawn, one row each; an experience may be drawn more than once."""

    acts: NDArray[np.int64]
    """Numbers of the acts in the store, shape [n]."""
    cycles: NDArray[np.int64]
    totals: NDArray[np.float64]
    chances: NDArray[np.float64]
    """Probability of each row in a draw, 0..1; 1 for the newest ones, which are not drawn by chance."""
    weights: NDArray[np.float64]
    """Importance weights, 0..1, the largest of the batch 1; all 1 where the draw was uniform, recent or balanced."""


class ExperienceSampler:
    """Draws from the newest experiences of a store; the same rows and the same seed give the same draws.

    Before each draw it takes in what the store has recorded, revised and removed since: a batch is of rows that were
    there, with these totals, at the moment of the draw. Not for several threads at once.

    A draw raises SampleError where there is nothing to draw from or the limiter forbids it, UsageError for a count
    below 1, StoreError where the store cannot be read.
    """

    def __init__(
        self,
        store: SampleReader,
        *,
        agent: str | None = None,
        size: int = VIEW,
        seed: int = 0,
        priority: PriorityRule | None = None,
        limiter: SampleLimiter | None = None,
    ) -> None:
        """`agent`: its name; None: all agents. `size`: newest experiences that are drawn from; some 200 bytes of memory
        each. Raises UsageError for a size below 1, StoreError."""
        if size < 1:
            raise UsageError(f"the size of the view is {size}: at least 1")
        self.view = SampleView(store, agent, size)
        self.priority = PriorityRule() if priority is None else priority
        self.limiter = limiter
        self.batches = 0
        """Prioritised batches drawn so far: how far beta has risen."""
        self._store = store
        self._random = np.random.default_rng(seed)
        self._half_life = self.priority.half_life or float(size)
        self._origin = 0
        self._tree = SumTree(np.zeros(1))
        self._last = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        """Acts of the last batch and their slots: what a trainer has errors for is found without a look-up each."""
        self._stale = np.zeros(0, dtype=np.int64)
        """Slots that were drawn since their priorities were made: each draw lowers them."""
        self._orders: dict[str, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = {}

    def __len__(self) -> int:
        """Experiences in the view, as of the last draw or refresh."""
        return len(self.view)

    @property
    def beta(self) -> float:
        """Exponent of the importance weights of the next prioritised batch, 0..1."""
        return self.priority.beta_at(self.batches)

    def refresh(self) -> None:
        """Take in what the store has recorded, revised and removed since. Raises StoreError."""
        self.view.refresh()
        if not self.view.dirty:
            self._set(np.zeros(0, dtype=np.int64))
            return
        self._orders.clear()
        if self._is_to_rebuild():
            self._rebuild()
        else:
            self._set(np.fromiter(self.view.dirty, dtype=np.int64))
        self.view.dirty.clear()

    def uniform(self, count: int) -> SampleBatch:
        """`count` experiences, each with the same chance in each draw."""
        self._begin(count, count)
        slots = self._random.integers(0, len(self), count)
        return self._batch(slots, np.full(count, 1.0 / len(self)))

    def recent(self, count: int) -> SampleBatch:
        """The newest `count` experiences, oldest first; fewer where there are fewer."""
        self._begin(count, min(count, max(1, len(self.view))))
        places = self.view.column("seq")
        count = min(count, len(self))
        slots = np.argpartition(places, len(self) - count)[len(self) - count :]
        slots = slots[np.argsort(places[slots])]
        return self._batch(slots, np.ones(count))

    def prioritised(self, count: int) -> SampleBatch:
        """`count` experiences by priority, one from each of `count` equal parts of the sum of priorities."""
        self._begin(count, count)
        slots = self._tree.draw((np.arange(count) + self._random.random(count)) / count)
        chances = self._tree.values(slots) / self._tree.total
        weights = importance(chances, len(self), self.beta)
        self.batches += 1
        return self._batch(slots, chances, weights)

    def balanced(self, count: int, by: Literal["outcome", "tool", "need"]) -> SampleBatch:
        """`count` experiences: each value of the column `by` that occurs has the same chance, then each of its rows.

        No tool, and a need that is not known, are values too.
        """
        if by not in ("outcome", "tool", "need"):
            raise UsageError(f"balanced by {by!r}: by outcome, tool or need")
        self._begin(count, count)
        order, starts, sizes = self._order(by)
        chosen = self._random.integers(0, len(starts), count)
        slots = order[starts[chosen] + (self._random.random(count) * sizes[chosen]).astype(np.int64)]
        return self._batch(slots, 1.0 / (len(starts) * sizes[chosen]))

    def update(self, acts: Sequence[int] | NDArray[np.int64], surprise: Sequence[float] | NDArray[np.float64]) -> None:
        """Give these acts another surprise, as a trainer measured it (its error), each finite and at least 0.

        It holds until the experience's total changes; acts that left the view are passed over. Of an act that is
        named twice the last holds. Raises UsageError.
        """
        given = np.asarray(surprise, dtype=np.float64)
        if len(given) != len(acts) or not (np.isfinite(given).all() and (given >= 0).all()):
            raise UsageError("a surprise for each act, each finite and at least 0")
        drawn, slots = self._last
        if drawn is not acts or slots.max() >= len(self) or (self.view.column("act")[slots] != drawn).any():
            slots = np.array(self.view.slots_of(int(act) for act in acts), dtype=np.int64)
        there = slots >= 0
        slots = slots[there]
        self.view.column("surprise")[slots] = given[there]
        self._set(slots)

    def experiences(self, batch: SampleBatch) -> list[ExperienceRecorded | None]:
        """The experiences of a batch, row by row, as of now; None for one that was removed since. Raises StoreError."""
        return self._store.experiences(batch.acts.tolist())

    def _begin(self, count: int, rows: int) -> None:
        """Be in step with the store, and count what is to be drawn."""
        if count < 1:
            raise UsageError(f"{count} rows are asked for: at least 1")
        self.refresh()
        if not len(self):
            raise SampleError("there is no experience to draw from yet: wait for the first, or name another agent")
        if self.limiter is not None:
            self.limiter.take(rows, self.view.came)

    def _batch(
        self, slots: NDArray[np.int64], chances: NDArray[np.float64], weights: NDArray[np.float64] | None = None
    ) -> SampleBatch:
        column = self.view.column
        column("uses")[slots] += 1
        self._stale = np.concatenate([self._stale, slots])
        weights = np.ones(len(slots)) if weights is None else weights
        acts = column("act")[slots]
        self._last = acts, slots
        return SampleBatch(acts, column("cycle")[slots], column("total")[slots], chances, weights)

    def _order(self, by: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(slots sorted by the column, where each of its values begins, how often it occurs)."""
        if (found := self._orders.get(by)) is None:
            codes = self.view.column(by)
            _, starts, sizes = np.unique(np.sort(codes), return_index=True, return_counts=True)
            found = self._orders[by] = (np.argsort(codes, kind="stable"), starts, sizes)
        return found

    def _is_to_rebuild(self) -> bool:
        risen = self.priority.alpha * (self.view.came - self._origin) / self._half_life
        return (
            len(self._tree) < self.view.capacity or len(self.view.dirty) * _REBUILD > len(self) or abs(risen) > HEADROOM
        )

    def _rebuild(self) -> None:
        self._origin = self.view.came
        powers = np.zeros(self.view.capacity)
        powers[: len(self)] = self._powers(np.arange(len(self)))
        self._tree = SumTree(powers)
        self._stale = self._stale[:0]

    def _set(self, slots: NDArray[np.int64]) -> None:
        """Make the priorities of these slots anew, and those of the stale ones; those behind the last row get none."""
        slots, self._stale = np.unique(np.concatenate([self._stale, slots])), self._stale[:0]
        if not len(slots):
            return
        there = slots[slots < len(self)]
        self._tree.set(there, self._powers(there))
        free = slots[slots >= len(self)]
        self._tree.set(free, np.zeros(len(free)))

    def _powers(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        column = self.view.column
        born = (column("born")[slots] - self._origin).astype(np.float64)
        return self.priority.powers(column("surprise")[slots], column("uses")[slots], born, self._half_life)
