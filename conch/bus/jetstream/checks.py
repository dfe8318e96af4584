"""Whether a server and its streams are what the bus relies on: a server leaves out what it does not know without a
word, and a stream that somebody else made may drop events and acknowledge them all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conch.errors import BusError, BusUnreachableError

STRICT_LEVEL = 5
"""JetStream API level of 2.15: the first that writes many events with one sync, and waits for it."""
LEAST_LEVEL = 1
"""Of 2.11: the first that tells its level at all, and keeps to what it is asked for or refuses it."""
_AT_LEAST = ("num_replicas", "duplicate_window")
"""More of these is as good."""
_OURS_ALONE = ("metadata", "name")
"""Of a stream's description: what differs from one to the next."""
_WITHOUT: dict[str, Any] = {
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
"""What no stream of ours has. `persist_mode: async` acknowledges before it writes, whatever sync_interval says."""
_HARMLESS: dict[str, tuple[Any, ...]] = {"persist_mode": ("default", ""), "max_msg_size": (0,), "max_consumers": (0,)}
"""Other words for the same."""
_NANOSECONDS = ("duplicate_window", "max_age")


def check_server(info: Mapping[str, Any], *, version: str, strict: bool) -> None:
    """Of `$JS.API.INFO`: that the server knows what it will be asked for. Raises BusUnreachableError."""
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


def check_stream(asked: Mapping[str, Any], echoed: Mapping[str, Any]) -> None:
    """That the stream is what was asked for, in every field. Raises BusError for the first that is not."""
    needed = {key: value for key, value in asked.items() if key not in _OURS_ALONE}
    if needed.get("max_bytes") == -1:
        del needed["max_bytes"]  # no wish: publishers wait while it is full
    for field, value in (_WITHOUT | needed).items():
        found = echoed.get(field, None if value is None else type(value)())
        if not _fits(field, value, found):
            raise BusError(
                f"the stream {asked['name']} has {field} {_shown(field, found)}, Conch needs {_shown(field, value)}: "
                "mend that stream (nats stream edit) or remove it, or use another account"
            )


def changed(asked: Mapping[str, Any], echoed: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """Of these fields, what was asked for and is otherwise, or less: a stream of our own may be changed so."""
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
