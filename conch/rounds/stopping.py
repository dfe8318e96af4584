"""Ends what a lineage is at because a person says so: the training of a round, its gate or its trial."""

from __future__ import annotations

from conch.errors import TrainingError
from conch.rounds.log import LineageLog
from conch.rounds.moves import end_trial, say_missing
from conch.training import read_pointer
from conch_schemas import AdapterRefused, TrainingFailed

STOPPED = "a person stopped it"
"""Why a round ended that `stop_round` ended."""


async def stop_round(log: LineageLog) -> str:
    """End the newest round, which nothing works on now; its digest. The adapter that acts stays.

    Raises TrainingError where no round is open; BusError.
    """
    await say_missing(log)
    round = log.state.round
    if round is None or not round.is_open:
        raise TrainingError(f"no round of {log.agent} is in progress: conch train list shows those that were")
    digest = round.started.round
    if round.adapter is None:
        await log.publish(
            TrainingFailed,
            digest,
            round.started.attempt,
            round=digest,
            attempt=round.started.attempt,
            why=STOPPED,
            again=False,
        )
        return digest
    pointer, _ = await read_pointer(log.bus, log.agent)
    if pointer.trial is not None and pointer.trial.adapter == round.adapter:
        await end_trial(log, round.adapter)
    await log.publish(
        AdapterRefused,
        digest,
        round.adapter,
        round=digest,
        adapter=round.adapter,
        at="person",
        why=STOPPED,
    )
    return digest
