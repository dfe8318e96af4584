"""The generations of a reflex mind: its parameters are frozen now and then, and compared with those before them.

The mind goes on learning all the time. Its parameters are frozen every `training.every` cycles. At the next freezing
the choices made since, which the frozen ones have not seen, say what both generations would have earned: better ones
become the generation that the policy names, with worse ones the mind goes back to the generation before.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import Protocol, TypeVar

from conch.bus import Bus, PolicyRecord
from conch.config import TrainingSettings
from conch.cycle.acting.arms import PolicyAdapter
from conch.cycle.acting.judged import JudgedGeneration, judge
from conch.cycle.acting.pointer import PointerReader
from conch.errors import CheckError, ConchError
from conch.log import get_logger
from conch.minds import ChoiceLog, FrozenParameters, FrozenShelf, LinUCB, ReflexMind, blank_bandit
from conch.training import move_pointer, promoted
from conch.training.gate import OffPolicyLimits
from conch_schemas import (
    AdapterGated,
    AdapterPromoted,
    AdapterRefused,
    Event,
    TrainingFinished,
    TrainingStarted,
)

log = get_logger(__name__)
E = TypeVar("E", bound=Event)


class EventMaker(Protocol):
    """Makes events of no cycle, and publishes them."""

    def outside(self, kind: type[E], key: str, **data: object) -> E:
        """An event; `key` tells it from others of its kind."""
        ...

    async def publish(self, event: Event) -> None:
        """Store it."""
        ...


class ReflexGenerations:
    """The generations of one agent's reflex mind."""

    def __init__(
        self,
        bus: Bus,
        agent: str,
        pointer: PointerReader,
        mind: ReflexMind,
        shelf: FrozenShelf,
        settings: TrainingSettings,
        facts: EventMaker,
    ) -> None:
        self._bus, self._agent, self._pointer = bus, agent, pointer
        self._mind, self._shelf, self._settings, self._facts = mind, shelf, settings, facts
        self._mind.drawn = self._mind.drawn or ChoiceLog()
        self._frozen: tuple[int, FrozenParameters, float] | None = None
        """The cycle of the last freezing, what was frozen, and the seconds that it took."""
        self._unusable: set[str] = set()

    async def of_cycle(self, cycle: int) -> PolicyAdapter | None:
        """The generation that the mind goes on from in this cycle; None: it has learnt from the beginning. Where the
        pointer was moved, the mind takes the parameters that it names."""
        pointer = await self._pointer.read(cycle)
        await self._follow(pointer)
        if cycle and cycle % self._settings.every == 0 and (self._frozen is None or self._frozen[0] < cycle):
            try:
                pointer = await self._look(cycle, pointer)
            except (ConchError, OSError) as error:
                log.warning("reflex.not_frozen", cycle=cycle, error=str(error))
        if not self._mind.generation or self._mind.generation != pointer.adapter:
            return None
        return PolicyAdapter(pointer.adapter, "", (), pointer.generation, pointer.evidence)

    async def _follow(self, pointer: PolicyRecord) -> None:
        """Take the parameters that the pointer names, where they are others than the mind goes on from."""
        named = pointer.adapter or ""
        if named == self._mind.generation or named in self._unusable or not pointer.move:
            return
        self._frozen = None
        if not named:
            self._mind.begin_again()
            return
        try:
            frozen = await asyncio.to_thread(self._shelf.get, named)
        except (CheckError, OSError) as error:
            self._unusable.add(named)
            log.warning("reflex.generation_not_used", generation=named[:12], error=str(error))
            return
        self._mind.go_on_from(frozen, restore=True)

    async def _look(self, cycle: int, pointer: PolicyRecord) -> PolicyRecord:
        """Judge what was frozen last, and freeze again; the pointer after that."""
        last, self._frozen = self._frozen, None
        if last is not None:
            pointer = await self._judged(cycle, pointer, last)
        began = time.perf_counter()
        frozen = self._mind.freeze(self._shelf)
        self._frozen = cycle, frozen, time.perf_counter() - began
        named = [one for one in (pointer.adapter, pointer.previous, frozen.digest) if one is not None]
        await asyncio.to_thread(self._shelf.keep, named, self._settings.keep)
        return pointer

    async def _judged(
        self, cycle: int, pointer: PolicyRecord, last: tuple[int, FrozenParameters, float]
    ) -> PolicyRecord:
        since, candidate, seconds = last
        assert self._mind.drawn is not None
        paid = [one for one in self._mind.drawn.paid() if one[0].cycle >= since]
        incumbent = await asyncio.to_thread(self._incumbent, pointer.adapter)
        gate, number = self._settings.gate, cycle // self._settings.every
        limits = OffPolicyLimits(margin=gate.margin, alpha=gate.alpha)
        found = await asyncio.to_thread(judge, paid, candidate.bandit(), incumbent, self._mind.epsilon, limits, number)
        generation = pointer.generation + 1
        round = hashlib.sha256(f"bandit/{self._pointer.agentuid}/{since}/{candidate.digest}".encode()).hexdigest()
        common: dict[str, object] = {"round": round, "attempt": 1}
        await self._tell(
            TrainingStarted, round, **common, method="bandit", generation=generation, base="", snapshot="",
            rows=len(paid), why="schedule",
        )  # fmt: skip
        await self._tell(
            TrainingFinished, round, **common, adapter=candidate.digest, bytes=candidate.size, seconds=seconds
        )
        gated = await self._tell(
            AdapterGated, round, round=round, adapter=candidate.digest, incumbent=pointer.adapter,
            verdict=found.better.verdict, conditions=found.conditions, number=number, alpha=found.better.alpha,
            pairs=found.better.acts, difference=found.better.difference, bound=found.better.bound,
            evidence=found.evidence,
        )  # fmt: skip
        if found.better.verdict == "passed":
            return await self._promote(round, candidate, generation, gated)
        await self._refuse(round, candidate, pointer, found)
        return pointer

    async def _promote(
        self, round: str, candidate: FrozenParameters, generation: int, gated: AdapterGated
    ) -> PolicyRecord:
        """Let the policy name what was frozen; the mind, which has learnt on from it, goes on."""
        why = gated.conditions[0].why
        self._mind.go_on_from(candidate, restore=False)
        before, after = await move_pointer(
            self._bus,
            self._agent,
            lambda now: promoted(now, candidate.digest, generation, why=why, evidence=gated.id),
        )
        self._pointer.last = after
        if after != before:
            await self._tell(
                AdapterPromoted, f"{after.move}", adapter=candidate.digest, previous=before.adapter,
                generation=after.generation, move=after.move, by="trial", round=round, why=why, evidence=gated.id,
            )  # fmt: skip
        return after

    async def _refuse(
        self, round: str, candidate: FrozenParameters, pointer: PolicyRecord, found: JudgedGeneration
    ) -> None:
        why = found.better.why
        if found.worse:
            why = f"It earns less than the generation before it, to which the mind goes back. {why}"
            if pointer.adapter is None or pointer.adapter in self._unusable:
                self._mind.begin_again()
            else:
                self._mind.go_on_from(await asyncio.to_thread(self._shelf.get, pointer.adapter), restore=True)
        await self._tell(AdapterRefused, round, round=round, adapter=candidate.digest, at="gate", why=why)

    def _incumbent(self, digest: str | None) -> LinUCB:
        """The parameters of a generation; of none, or one that cannot be used, those of a mind that learnt nothing."""
        if digest is None or digest in self._unusable:
            return blank_bandit()
        return self._shelf.get(digest).bandit()

    async def _tell(self, kind: type[E], key: str, **data: object) -> E:
        event = self._facts.outside(kind, key, **data)
        await self._facts.publish(event)
        return event
