"""Checks that a server and its streams have the features and settings that the bus relies on.

A server silently ignores settings that it does not know, and a stream that another program made may drop events
although it acknowledges them.
"""

from __future__ import annotations

from typing import Any

from conch.errors import BusError, BusUnreachableError
from conch_schemas import JsonObject

STRICT_LEVEL = 5
"""JetStream API level of 2.15: the first that writes many events with one sync and acknowledges after it."""
LEAST_LEVEL = 1
"""JetStream API level of 2.11: the first that reports its level, and refuses settings that it does not know."""
_AT_LEAST = ("num_replicas", "duplicate_window")
"""Fields for which a larger value than asked for is accepted."""
_OURS_ALONE = ("metadata", "name")
"""Fields of a stream's description that differ between streams and are not compared."""
_WITHOUT: JsonObject = {
    "mirror": None,
    "sources": None,
    "subject_transform": None,
    "no_ack": False,
    "sealed": False,
    "deny_purge": False,
    "allow_msg_counter": False,
    "discard_new_per_subject": False,
    "persist_mode": None,
    "max_msg_size": -1,
    "max_consumers": -1,
}
"""Settings that our streams must not have. With `persist_mode: async` the server acknowledges before it writes,
under every sync_interval."""
_HARMLESS: dict[str, tuple[Any, ...]] = {"persist_mode": ("default", ""), "max_msg_size": (0,), "max_consumers": (0,)}
"""Values with the same meaning as the default."""
_NANOSECONDS = ("duplicate_window", "max_age")


def check_server(info: JsonObject, *, version: str, strict: bool) -> None:
    """Check `$JS.API.INFO`: the server supports all that it will be asked for. Raises BusUnreachableError."""
    level = int(info["api"].get("level", 0))
    if level < LEAST_LEVEL:
        raise BusUnreachableError(
            f"the nats-server {version} is too old, as it ignores settings that it does not know: update it to 2.11 "
            "or newer, for bus.durability: strict to 2.15 or newer"
        )
    if strict and level < STRICT_LEVEL:
        raise BusUnreachableError(
            f"nats-server {version} (JetStream API level {level}) is too old for bus.durability: strict, which needs "
            f"2.15 or newer (level {STRICT_LEVEL}): install that, or set bus.durability: fast"
        )


def check_stream(asked: JsonObject, echoed: JsonObject) -> None:
    """Check that every field of the stream is as asked for. Raises BusError for the first that is not."""
    needed = {key: value for key, value in asked.items() if key not in _OURS_ALONE}
    if needed.get("max_bytes") == -1:
        del needed["max_bytes"]  # not required: publishers wait while it is full
    for field, value in (_WITHOUT | needed).items():
        found = echoed.get(field, None if value is None else type(value)())
        if not _fits(field, value, found):
            raise BusError(
                f"the stream {asked['name']} has {field} {_shown(field, found)}, Conch needs {_shown(field, value)}: "
                "mend that stream (nats stream edit) or remove it, or use another account"
            )


def changed(asked: JsonObject, echoed: JsonObject, fields: tuple[str, ...]) -> JsonObject:
    """The fields that are not as asked for, with the values to set: those that may be updated on our own stream."""
    return {
        field: asked[field]
        for field in fields
        if field in asked
        and asked[field] != -1
        and echoed.get(field) != asked[field]
        and not (field in _AT_LEAST and _fits(field, asked[field], echoed.get(field)))
    }


def _fits(field: str, needed: Any, found: Any) -> bool:
    if field in _AT_LEAST:
        return bool(found >= needed)
    return found == needed or (field in _WITHOUT and found in _HARMLESS.get(field, ()))


def _shown(field: str, value: Any) -> str:
    if field in _NANOSECONDS:
        return f"{value / 1e9:g} s"
    return "none" if value is None else repr(value)
