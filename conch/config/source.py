"""Layers of settings: nested values with the place that each one comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

KeyPath = tuple[str | int, ...]
"""Path of a key, such as `("goals", 0, "priority")`."""


@dataclass(frozen=True)
class SettingsLayer:
    """One layer of the settings: the values of one source, with the place of each."""

    values: Mapping[str, object]
    places: Mapping[KeyPath, str]
    """Key path -> place in words: `/home/me/conch.yaml line 3`, `environment CONCH_AGENT`, `command line`."""

    def place(self, path: KeyPath) -> str | None:
        """The place of the value at `path`, otherwise of the nearest value that contains it."""
        return next((self.places[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.places), None)

    def part(self, path: KeyPath) -> str | None:
        """The place of a part of the value at `path`."""
        return next((place for key, place in self.places.items() if key != path == key[: len(path)]), None)


def dotted(path: KeyPath) -> str:
    """A key path as text, such as `goals[0].priority`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def leaves(values: Mapping[str, object], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Each value that is not a mapping, or an empty one, with its key path."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def merged(under: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """`over` merged onto `under`, mappings key by key; a list replaces a list.

    Where `over` has a mapping and `under` another value, `under` stays: it is invalid there, and is to be reported.
    """
    result = dict(under)
    for key, value in over.items():
        if not isinstance(value, Mapping) or key not in result:
            result[key] = value
        elif isinstance(there := result[key], Mapping):
            result[key] = merged(there, value)
    return result
