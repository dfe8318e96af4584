"""A dead letter handled once more by who runs."""

from __future__ import annotations

from conch.bus import Bus
from conch.consumer.group import holder_of
from conch.consumer.runtime import control_of
from conch.errors import BusError, BusUnreachableError, ConchError
from conch.requests.ask import ask
from conch_schemas import ConsumerFailed, agent_of

RETRY_SECONDS = 60.0
"""Time for one retry: a fold is built again from the state before the letter."""


async def retried(bus: Bus, letter: ConsumerFailed) -> None:
    """By whoever handles that agent's events now. Raises BusUnreachableError where nobody does, ConchError where it
    failed again; whoever had it retried settles it."""
    # A service that shares its agents with nobody, the store, answers whoever is named.
    holder = await holder_of(bus, letter.consumer, agent_of(letter.letter_subject) or "") or "anybody"
    try:
        await ask(bus, control_of(letter.consumer, holder), {"seq": letter.letter_seq}, timeout=RETRY_SECONDS)
    except BusError as error:
        raise BusUnreachableError(f"the consumer {letter.consumer} takes no retry ({error}): conch status") from None
    except ConchError as error:
        raise ConchError(f"{letter.id[:8]} failed again: {error}") from None
