"""What is known of one action while it is worked on, as the rows of the store have it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

from conch.experience.assemble import ExperienceContext
from conch_schemas import ActionTaken, NeedsChanged, Score

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True, eq=False)
class JoinCase:
    """An act with everything that was said of it so far; the act itself may still be missing.

    Each table maps a key to (place in the stream, what was said there).
    """

    number: int
    action_id: str
    act: ActionTaken | None = None
    seq: int = 0
    """The act's place."""
    started: float = 0.0
    """When the act was, seconds since the epoch."""
    due: float | None = None
    """Until when it waits for its scores; None: it does not wait."""
    scores: dict[tuple[str, str, str], tuple[int, Score]] = field(default_factory=dict)
    """By scorer, version and component."""
    contexts: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """By kind: thought, claims, messages, reflection with its milliseconds."""
    needs: dict[str, tuple[int, NeedsChanged]] = field(default_factory=dict)
    """By the event's id."""
    revision: int = 0
    """Of its experience; 0: not recorded."""
    verdict: bytes | None = None
    size: int = 0
    """About how many bytes of text it holds."""
    counted: int = 0
    """How many of them the store has counted."""

    def context(self) -> ExperienceContext:
        """All but the act and its scores."""
        said = {kind: value for kind, (_, value) in self.contexts.items()}
        reflection, reflect_ms = said.get("reflection", ("", None))
        _, changed = min(self.needs.values(), key=itemgetter(0), default=(0, None))
        return ExperienceContext(
            thought=said.get("thought"),
            claims=said.get("claims", ()),
            messages=said.get("messages", ()),
            needs_before=changed.before if changed else None,
            needs_after=changed.after if changed else None,
            reflection=reflection,
            reflect_ms=reflect_ms,
        )


def takes(table: dict[K, tuple[int, V]], key: K, seq: int, value: V) -> bool:
    """Put what was said at `seq` into the table; False where it was said already, at this place or an earlier one."""
    there = table.get(key)
    if there is not None and there[0] <= seq:
        return False
    table[key] = (seq, value)
    return True
