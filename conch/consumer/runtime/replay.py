"""Retry of a fold's dead letter: the state is rebuilt, from before the dead letter to the current position."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from conch.bus import Bus, Delivery, StateRecord, before_key, before_seq, decoded, letter_key
from conch.consumer.runtime.attempts import Attempts, awaited
from conch.consumer.runtime.context import RuntimeContext
from conch.consumer.runtime.dead_letters import dead_letter
from conch.consumer.runtime.in_flight import InFlightBatches
from conch.consumer.runtime.output import ConsumerOutput, StateBeforeEvent
from conch.consumer.spec import ConsumerSpec
from conch.errors import BusError, ContractError
from conch.retry import REBUILD
from conch_schemas import ContractViolationError, Event, subject_filter

"""Waits between two tries of an event that is folded again."""


async def dead(bus: Bus, seq: int) -> Event:
    """The event of a dead letter. Raises ContractError when it was trimmed, ContractViolationError for no event."""
    delivery = await bus.at(seq)
    if delivery is None:
        raise ContractError(f"event {seq} is no longer on the stream")
    return decoded(delivery.subject, delivery.data)


class DeadLetterReplay:
    """Handles the event of a dead letter once more, while the consumer runs or alone."""

    def __init__(self, context: RuntimeContext, in_flight_batches: InFlightBatches, attempts: Attempts) -> None:
        self._context, self._in_flight_batches, self._attempts = context, in_flight_batches, attempts

    async def retry(self, seq: int) -> None:
        """Handle the event at `seq`; a fold is rebuilt from the state before it. Raises what the handler raises."""
        context = self._context
        event = await dead(context.bus, seq)
        agent_queue = context.agent_queue(event.agent)
        async with agent_queue.free:
            if context.spec.state is None:
                await self._attempts.handle(agent_queue, event, seq)
                return
            await self._in_flight_batches.landed()
            held = agent_queue.held or await context.load(agent_queue.agent)
            rebuilding = StateRebuild(
                context.bus, context.spec, context.output, agent_queue.agent, context.stream.epoch
            )
            state, upto = await rebuilding.run(seq, upto=max(held.seq, seq))
            async with context.writing:
                agent_queue.held, held.state, held.seq, held.saved = held, state, upto, -1
                await context.save(agent_queue.agent, held, state, upto)


class StateRebuild:
    """Rebuilds the state of one agent in one fold."""

    def __init__(self, bus: Bus, spec: ConsumerSpec, output: ConsumerOutput, agent: str, epoch: str) -> None:
        self._bus, self._spec, self._output, self._agent, self._epoch = bus, spec, output, agent, epoch

    async def run(self, seq: int, *, upto: int) -> tuple[Any, int]:
        """(the state, `upto`) after everything from the dead letter at `seq` up to `upto`, folded anew.

        What follows is published where it is not on the stream, and the states before other dead letters are brought up
        to date; other open dead letters are left out. Raises what the handler raises for the dead letter itself, and
        for any other event that fails on all tries: the state has to stay as it was.
        """
        state = await self._before(seq)
        known = self._output.known | await self._output.published_since(seq)
        letters = await self._letters() - {seq}
        folded: set[str] = set()
        filters = [subject_filter(kind, self._agent) for kind in self._spec.kinds]
        async for delivery in self._bus.read(filters, after=seq - 1):
            if delivery.seq > upto:
                break
            try:
                event = decoded(delivery.subject, delivery.data)
            except ContractViolationError:
                continue  # has a dead letter of its own
            if event.id in folded:
                continue
            folded.add(event.id)
            before = StateBeforeEvent(self._agent, state, delivery.seq - 1, self._epoch)
            if delivery.seq in letters:
                await self._output.keep(delivery.seq, before)
            try:
                state = await self._folded(state, event, known)
            except Exception as error:
                if isinstance(error, BusError) or delivery.seq == seq or not await self._is_open(delivery):
                    raise
        return state, upto

    async def _folded(self, state: Any, event: Event, known: Mapping[str, int]) -> Any:
        for failures in range(1, self._spec.tries):
            try:
                return await self._once(state, event, known)
            except BusError:
                raise
            except Exception:
                await asyncio.sleep(REBUILD.after(failures))
        return await self._once(state, event, known)

    async def _once(self, state: Any, event: Event, known: Mapping[str, int]) -> Any:
        folded = self._spec.folded(await awaited(self._spec.handle(state, event)))
        return await self._output.conclude(state, event, folded, known)

    async def _is_open(self, delivery: Delivery) -> bool:
        """Whether this event has a dead letter that was not retried with success."""
        letter = dead_letter(self._spec, delivery, "", 0)
        entry = await self._bus.get(before_key(self._spec.name, self._agent, delivery.seq))
        return entry is not None and bool(entry.value) and await self._bus.get(letter_key(letter.id)) is None

    async def _before(self, seq: int) -> Any:
        entry = await self._bus.get(before_key(self._spec.name, self._agent, seq))
        found = StateRecord.decode(entry.value) if entry is not None and entry.value else None
        if found is None or found.epoch != self._epoch:
            raise ContractError(f"the state before event {seq} is not known: conch consumer reset {self._spec.name}")
        assert self._spec.state is not None
        return self._spec.state.model_validate(found.state)

    async def _letters(self) -> set[int]:
        """The sequences of this agent's other dead letters."""
        found = (before_seq(key, self._spec.name, self._agent) for key in await self._bus.keys())
        return {seq for seq in found if seq is not None}
