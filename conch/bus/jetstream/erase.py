"""Removal of words from the stream's and the bucket's files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conch.bus.jetstream.connection import Connection, ServerRefusalError
from conch.bus.jetstream.names import BUCKET_STREAM, STREAM
from conch.tasks import concurrently

_ABSENT: Final = {10014, 10037, 10043, 10057, 10059}
"""Refusals to delete an event that is not there: not found, no message, sequence not found, as versions say it."""


async def erase(connection: Connection, seqs: Sequence[int]) -> None:
    """Let the server overwrite these events in the stream's files; one that is gone changes nothing."""

    async def erased(seq: int) -> None:
        try:
            await connection.api(f"STREAM.MSG.DELETE.{STREAM}", {"seq": seq, "no_erase": False})
        except ServerRefusalError as error:
            if error.code not in _ABSENT:
                raise

    await concurrently(erased, seqs)


async def empty_bucket(connection: Connection) -> None:
    """Drop all values with the files that hold them and earlier ones; revisions go on rising."""
    await connection.api(f"STREAM.PURGE.{BUCKET_STREAM}")
