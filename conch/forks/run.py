"""A fork: candidates for a recorded decision, each made by a mind with a seed of its own, tried and scored."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from conch.config import Masker, Settings
from conch.consumer import follow
from conch.cycle.decide import DecisionResult, answered, prompt_digest
from conch.cycle.policy import ActingPolicy
from conch.errors import UsageError
from conch.forks.execute import CandidateRunner, Tried, recorded_registry, standing
from conch.forks.minds import ForkMinds
from conch.forks.recorded import RecordedCycle
from conch.forks.score import VERSION, ForkTotal, score_candidate, weights_of
from conch.minds import AskedAdapter, MaskedMind, Prompt, ScriptEnded
from conch.rewards import VERSION as RULES
from conch.tasks import uninterrupted
from conch.text import cut
from conch.training import served_name
from conch.values import Values
from conch_schemas import Cost, ForkScored, consequence_id


@dataclass(frozen=True)
class ForkRequest:
    """What a fork is made of."""

    recorded: RecordedCycle
    seeds: tuple[int, ...]
    """One for each candidate."""
    adapter: str | None = None
    """Digest of the adapter under which the minds are asked; None: as they are."""


class Fork:
    """Candidates for the decision of one recorded cycle.

    The minds read the prompt as it was; tools work in a copy of the workspace as it was; rules, values, policy and
    limits are those of now. Nothing is published, and nothing outside of the copies is changed. Raises ConchError where
    the decision or its workspace is not kept.
    """

    def __init__(self, request: ForkRequest, minds: ForkMinds, settings: Settings, values: Values) -> None:
        self._recorded, self._seeds, self._minds = request.recorded, request.seeds, minds
        self._adapter = None if request.adapter is None else AskedAdapter(request.adapter, served_name(request.adapter))
        self._settings, self._values = settings, values
        self._decision = request.recorded.kept()
        self._prompt = self._decision.prompt()
        self._registry = recorded_registry(self._decision)
        self._runner = CandidateRunner(settings, values, self._decision, request.recorded.shelf)
        self._masker = Masker.of(settings)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits: equal for candidates that differ by their seeds alone."""
        rewards = self._settings.rewards
        values = [one.model_dump_json() for one in (rewards.format, rewards.execution, rewards.goal)]
        parts = [VERSION, RULES, *values, self._minds.digest, prompt_digest(self._prompt), self._decision.tree]
        parts += [self._adapter.digest] if self._adapter is not None else []
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def id_of(self, seed: int) -> str:
        """The id of the candidate of this seed, whenever it is made."""
        return consequence_id(self._recorded.act.id, "forks", self.digest, ForkScored, seed)

    def missing(self, known: Iterable[ForkScored]) -> list[int]:
        """The seeds whose candidates are not among `known`."""
        there = {fork.id for fork in known}
        return [seed for seed in dict.fromkeys(self._seeds) if self.id_of(seed) not in there]

    def own(self, known: Iterable[ForkScored]) -> dict[int, ForkScored]:
        """The candidates of this fork among `known`, by seed."""
        there = {fork.id: fork for fork in known}
        return {seed: there[id] for seed in self._seeds if (id := self.id_of(seed)) in there}

    async def candidates(self, seeds: Iterable[int]) -> AsyncIterator[ForkScored]:
        """The candidates of these seeds, one after the other. Raises ModelError where the mind does not reply,
        UsageError where a script has no such line, ToolError where the workspace cannot be copied. Cancelled, programs
        are ended and the copy is removed."""
        for seed in seeds:
            yield await self._candidate(seed)

    async def _candidate(self, seed: int) -> ForkScored:
        mind = MaskedMind(self._minds.of(seed), self._masker)
        try:
            prompt = self._limited(self._prompt)
            decision = await answered(mind, prompt, self._registry)
        except ScriptEnded as error:
            raise UsageError(f"seed {seed}, the number of a line from 0: {error}") from None
        finally:
            await mind.close()
        policy = ActingPolicy(mind, self._minds.settings.mind, prompt.system, self._values.digest, self._registry)
        policy.follow(decision.decoding.constraint)
        began = time.perf_counter()
        async with self._copy() as copy:
            copied = time.perf_counter()
            tried = standing(await self._runner.run(decision.action, copy), self._recorded.act)
        judged = self._scored(decision, tried)
        ended = time.perf_counter()
        ms = {"decide": decision.completion.ms, "copy": (copied - began) * 1000, "act": tried.ms}
        ms["score"] = max(0.0, (ended - copied) * 1000 - tried.ms)
        return self._event(seed, mind.kind, policy.digest, decision, tried, judged, ms)

    @asynccontextmanager
    async def _copy(self) -> AsyncIterator[Path]:
        """A copy of the workspace, made and removed in a thread; also removed where the fork is cancelled."""
        with ExitStack() as stack:
            made = self._recorded.shelf.copy(self._decision.tree)
            try:
                yield await uninterrupted(asyncio.to_thread(stack.enter_context, made), name="conch.fork.copy")
            finally:
                await uninterrupted(asyncio.to_thread(stack.close), name="conch.fork.remove")

    def _limited(self, prompt: Prompt) -> Prompt:
        most = self._minds.settings.mind.max_tokens
        return replace(prompt, max_tokens=most, registry=self._registry, adapter=self._adapter)

    def _scored(self, decision: DecisionResult, tried: Tried) -> ForkTotal:
        """The scores of the candidate as if it had been the act of its cycle."""
        reply = cut(decision.completion.text)
        act = self._recorded.act.model_copy(
            update={
                "action": decision.action,
                "raw": reply.text,
                "outcome": tried.outcome,
                "goals": tried.goals,
                "effect": tried.effect,
                "constrained": decision.completion.constrained,
                "decoding": decision.decoding,
                "message": None,
            }
        )
        weights = weights_of(self._recorded.experience.scores)
        return score_candidate(act, self._settings.rewards, weights, tried.unknown)

    def _event(
        self,
        seed: int,
        mind: str,
        policy: str,
        decision: DecisionResult,
        tried: Tried,
        judged: ForkTotal,
        ms: dict[str, float],
    ) -> ForkScored:
        reply, raw = decision.completion, cut(decision.completion.text)
        currency = self._minds.settings.mind.currency
        event = follow(
            self._recorded.act,
            ForkScored,
            consumer="forks",
            version=self.digest,
            index=seed,
            policy=policy,
            fork=self.digest,
            seed=seed,
            mind=mind,
            raw=raw.text,
            raw_length=raw.length,
            raw_sha256=raw.sha256,
            action=decision.action,
            constrained=reply.constrained,
            model=reply.model,
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            cost=None if reply.cost is None or currency is None else Cost(amount=reply.cost, currency=currency),
            decoding=decision.decoding,
            workspace=self._decision.tree,
            executed=tried.executed,
            why_not=tried.why_not,
            outcome=tried.outcome,
            goals=tried.goals,
            effect=tried.effect,
            scores=judged.scores,
            weights=self._recorded.experience.weights,
            total=judged.total,
            coverage=judged.coverage,
            ms=ms,
        )
        return self._masker.event(event)
