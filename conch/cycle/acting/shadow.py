"""The shadow of an act: while a candidate is in a shadow trial, it is asked the same prompt, and does not act."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from conch.actions import Registry
from conch.bus import TrialRecord
from conch.cycle.acting.adapters import ActingAdapter, ActingAdapters
from conch.cycle.control import Control
from conch.cycle.decide import DecisionResult, answered
from conch.cycle.publish import AgentPublisher
from conch.errors import AdapterError, ConchError
from conch.log import get_logger
from conch.minds import Mind
from conch.text import cut
from conch_schemas import ActionTaken, AdapterShadowed, Cost

log = get_logger(__name__)

LEAST_SECONDS: Final = 1.0
"""Idle time below which an agent counts as one without: a candidate may take as long as the act's own decision did,
and this long at least."""


class ShadowTrial:
    """Asks the candidates of one agent."""

    def __init__(
        self,
        adapters: ActingAdapters,
        mind: Mind,
        registry: Registry,
        facts: AgentPublisher,
        control: Control,
        cost: Callable[[float | None], Cost | None],
    ) -> None:
        """`mind`: with its budget, without the choice of an adapter. `cost`: of a price."""
        self._adapters, self._mind, self._registry = adapters, mind, registry
        self._facts, self._control, self._cost = facts, control, cost
        self._decision: DecisionResult | None = None
        self._act: ActionTaken | None = None

    def decided(self, decision: DecisionResult) -> None:
        """Keep the decision of the open cycle."""
        self._decision, self._act = decision, None

    def acted(self, act: ActionTaken) -> None:
        """Keep the act that came of it."""
        self._act = act

    async def decide(self, idle: float) -> None:
        """Ask the candidate for the last act's decision, and publish its reply; nothing where no shadow trial is in
        progress, or it does not reply in time. `idle`: seconds until the next cycle is due. Loading and probing it
        takes what it takes, as before a cycle that it decides. A second call for the same act does nothing.

        Raises StoppedError when told to stop meanwhile.
        """
        decision, act, self._decision = self._decision, self._act, None
        if decision is None or act is None or act.cycle is None:
            return
        seconds = idle if idle >= LEAST_SECONDS else max(LEAST_SECONDS, decision.completion.ms / 1000)
        try:
            found = await self._control.unless_stopped(self._adapters.candidate(act.cycle))
            if found is None:
                return
            async with asyncio.timeout(seconds):
                await self._control.unless_stopped(self._asked(decision, act, *found))
        except (TimeoutError, ConchError) as error:
            log.info("adapter.not_shadowed", cycle=act.cycle, why=str(error) or f"no reply within {seconds:.1f} s")

    async def _asked(
        self, decision: DecisionResult, act: ActionTaken, candidate: ActingAdapter, trial: TrialRecord
    ) -> None:
        try:
            shadow = await answered(
                self._mind, replace(decision.prompt, adapter=candidate.proven.asked), self._registry
            )
        except AdapterError:
            self._adapters.doubt(candidate.digest)
            raise
        if shadow.decoding.adapter != candidate.digest:
            return  # a fallback replied
        self._adapters.decided(candidate.digest)
        reply, raw = shadow.completion, cut(shadow.completion.text)
        event = self._facts.after(
            act,
            AdapterShadowed,
            adapter=candidate.digest,
            round=trial.round,
            raw=raw.text,
            raw_length=raw.length,
            raw_sha256=raw.sha256,
            action=shadow.action,
            constrained=reply.constrained,
            usage=reply.usage,
            model=reply.model,
            finish_reason=reply.finish_reason,
            ms=reply.ms,
            decoding=shadow.decoding,
            cost=self._cost(reply.cost),
        )
        await self._facts.publish(event)
