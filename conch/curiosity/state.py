"""Curiosity's state for one agent: bounded, stored as JSON between two events."""

from __future__ import annotations

from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from conch.folds import Digests

HALF_LIFE: Final = 50
"""Acts after which a sighting counts half."""

FORGOTTEN: Final = 0.05
"""A count below this is dropped: at the half-life above, after 216 acts. Counts are cleaned up every HALF_LIFE acts, so
at most 266 fingerprints are kept."""

RECENT: Final = 50
"""Acts in the window of entropy, success, autonomy; messages in that of social."""

LATEST: Final = 20
"""Acts within which a repetition counts."""

TRIES: Final = 20
"""Outcomes kept per skill: the window of its success rate and of its learning progress."""

GOALS: Final = 20
"""Goals in the window of autonomy."""

HEARD: Final = 100
"""Most goal events remembered for deduplication, so that one read twice counts once."""

NAMES: Final = 200
"""Most skills and tools remembered; the one used longest ago is dropped first."""


class Sighting(NamedTuple):
    """How often and when last a fingerprint was met."""

    count: float  # type: ignore[assignment]  # the name in states of before; a tuple's own method is not missed
    """Decayed to the act `at`."""
    at: int
    """Number of that act."""

    def faded(self, now: int) -> float:
        """The count as of act `now`: halved every HALF_LIFE acts."""
        return float(self.count * 0.5 ** ((now - self.at) / HALF_LIFE))


class ActSummary(NamedTuple):
    """One act as the windows count it."""

    skill: str
    success: bool | None
    """None where nothing was tried (DO_NOTHING, REFLECT)."""
    own: bool
    """Self-initiated: no person's message was waiting."""
    asked: bool
    """It asked for help: a `reply` in which a text ends with a question mark."""


class CuriosityState(BaseModel):
    """One agent's history as far as curiosity uses it. Every field is bounded."""

    model_config = ConfigDict(frozen=True)

    place: tuple[int, int] | None = None
    """(cycle, step) of the last act; an act at or before it changes nothing."""
    acts: int = 0
    """Acts so far: the clock of the decay."""
    sightings: dict[str, Sighting] = {}
    """By fingerprint of skill, arguments and result."""
    latest: Digests = ""
    """Fingerprints of the last LATEST acts, oldest first. A state of an earlier version has none, and starts empty."""
    seen: Digests = ""
    """Fingerprints of earlier outputs, so that only a new one counts as information."""
    uses: dict[str, int] = {}
    """Uses by tool, the one used longest ago first."""
    tries: dict[str, tuple[bool, ...]] = {}
    """Outcomes by skill, oldest first; the skill used longest ago first."""
    deeds: tuple[ActSummary, ...] = ()
    """The last RECENT acts, oldest first."""
    goals: dict[str, bool] = {}
    """The last GOALS goals that were set: whether the agent set it itself."""
    goals_heard: Digests = ""
    """Digests of the ids of the last HEARD events that set one, oldest first."""
    messages: dict[str, bool] = {}
    """The last RECENT messages of people: whether it was answered."""
