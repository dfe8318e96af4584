"""Retry of a dead letter by the consumer that runs."""

from __future__ import annotations

from conch.bus import Bus
from conch.consumer.group import holder_of
from conch.consumer.runtime import control_of
from conch.errors import BusError, BusUnreachableError, ConchError
from conch.experience import stored_partition
from conch.requests.ask import ask
from conch_schemas import ConsumerFailed, agent_of

RETRY_SECONDS = 60.0
"""Timeout of one retry, in seconds: a fold is rebuilt from the state before the dead letter."""


async def retried(bus: Bus, letter: ConsumerFailed) -> None:
    """Retry by the owner of that agent's partition. Raises BusUnreachableError where it has no owner, ConchError where
    the retry failed; the caller settles the dead letter."""
    # A service answers under any name; a worker of a shared store under the numbers of its partitions.
    agent = agent_of(letter.letter_subject) or ""
    holder = await holder_of(bus, letter.consumer, agent) or str(stored_partition(agent))
    try:
        await ask(bus, control_of(letter.consumer, holder), {"seq": letter.letter_seq}, timeout=RETRY_SECONDS)
    except BusError as error:
        raise BusUnreachableError(f"the consumer {letter.consumer} takes no retry ({error}): conch status") from None
    except ConchError as error:
        raise ConchError(f"{letter.id[:8]} failed again: {error}") from None
