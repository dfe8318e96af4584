"""Curiosity's state for one agent: bounded, stored as JSON between two events."""

from __future__ import annotations

from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from conch.folds import Digests

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

    def faded(self, now: int, half_life: int) -> float:
        """The count as of act `now`: halved every `half_life` acts."""
        return float(self.count * 0.5 ** ((now - self.at) / half_life))


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
    """By fingerprint of skill, arguments and result. At the default half-life of 50 acts a count fades below 0.05 after
    216 acts, and such counts are dropped every 50 acts: at most 266 are kept."""
    latest: Digests = ""
    """Fingerprints of the newest acts (20 by default) by which repetitions count, oldest first. A state of an earlier
    version has none, and starts empty."""
    fruitless: Digests = ""
    """Of the same acts: digests of tool × operation and target, or NO_TARGET for an act that had an effect or has no
    target."""
    seen: Digests = ""
    """Fingerprints of earlier outputs, so that only a new one counts as information."""
    uses: dict[str, int] = {}
    """Uses by tool, the one used longest ago first."""
    tries: dict[str, tuple[bool, ...]] = {}
    """Outcomes by skill, oldest first; the skill used longest ago first."""
    deeds: tuple[ActSummary, ...] = ()
    """The newest acts (50 by default), oldest first."""
    goals: dict[str, bool] = {}
    """The newest goals that were set (20 by default): whether the agent set it itself."""
    goals_heard: Digests = ""
    """Digests of the ids of the last HEARD events that set one, oldest first."""
    messages: dict[str, bool] = {}
    """The newest messages of people (50 by default): whether it was answered."""
