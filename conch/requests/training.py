"""Requests of people to the trainer: begin a round, stop it, promote an adapter, roll back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

from conch.errors import BusError, BusUnreachableError
from conch.requests.ask import ask

if TYPE_CHECKING:
    from conch.bus import Bus

TrainerVerb = Literal["run", "stop", "promote", "rollback"]
TRAINER_VERBS: Final[tuple[TrainerVerb, ...]] = get_args(TrainerVerb)
ANSWER_SECONDS: Final = 10.0
"""Seconds for the trainer's answer: it says that a round begins, not how it ended."""


def trainer_subject(verb: TrainerVerb) -> str:
    """The subject of a request to the trainer, `conch.ctl._consumer.trainer.train.run`."""
    return f"conch.ctl._consumer.trainer.train.{verb}"


async def ask_trainer(bus: Bus, verb: TrainerVerb, agent: str, adapter: str | None = None) -> str:
    """The trainer's answer to a request about an agent's lineage, a sentence or empty; `adapter`: the digest that is
    meant.

    Raises BusUnreachableError where no trainer answers, ConchError with a refusal.
    """
    body = {"agent": agent} if adapter is None else {"agent": agent, "adapter": adapter}
    try:
        reply = await ask(bus, trainer_subject(verb), body, timeout=ANSWER_SECONDS)
    except BusError as error:
        raise BusUnreachableError(
            f"no trainer answers ({error}): conch run starts one where training.enabled is set, "
            "conch consume trainer anywhere"
        ) from None
    return str(reply.get("said", ""))
