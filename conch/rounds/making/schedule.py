"""When a round may begin: enough experiences, cool-down over, the agent and the machine idle. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from conch.config import TrainingSettings

LONGEST_BACKOFF: Final = 16
"""Most cool-downs that are waited after rounds that brought nothing: the wait doubles with each in a row."""


@dataclass(frozen=True)
class TrainerMoment:
    """What the schedule goes by. Times are seconds; a clock that was set back gives a negative `since_round`."""

    experiences: int
    """Of the lineage, now."""
    seen: int
    """Experiences that there were when the newest round began; 0: there was none."""
    looked: int
    """Experiences at the last look that found too few; 0: there was none."""
    since_round: float | None
    """Since the newest round ended; None: none did."""
    in_vain: int
    """Rounds in a row, up to the newest one, that failed or were refused."""
    waiting: int
    """Messages without an answer."""
    quiet: float
    """Since a message last waited."""
    deadline: float | None
    """Until the nearest deadline of a goal; None: there is none."""
    load: float
    """Load of the machine for each processor, over 1 minute."""


def is_look(moment: TrainerMoment, settings: TrainingSettings) -> bool:
    """Whether `training.every` cycles have passed since the last look, or the last round."""
    return moment.experiences - max(moment.seen, moment.looked) >= settings.every


def why_not_yet(moment: TrainerMoment, settings: TrainingSettings) -> str | None:
    """Why no round may begin now, in one sentence; None: one may."""
    fresh = moment.experiences - moment.seen
    if fresh < settings.min_experiences_for_training:
        return (
            f"{fresh} new experiences since the last round, {settings.min_experiences_for_training} are needed "
            "(training.min_experiences_for_training)"
        )
    return _cooling(moment, settings) or why_busy(moment, settings)


def why_busy(moment: TrainerMoment, settings: TrainingSettings) -> str | None:
    """Why the agent or the machine has something better to do; None: both are idle."""
    if moment.waiting:
        return f"{moment.waiting} messages wait for an answer"
    if moment.quiet < settings.idle:
        return f"a message waited {moment.quiet:.0f} s ago (training.idle is {settings.idle:g} s)"
    if moment.deadline is not None and 0 <= moment.deadline <= settings.idle:
        return f"a goal's deadline is in {moment.deadline:.0f} s (training.idle is {settings.idle:g} s)"
    if moment.load > settings.load:
        return f"the load is {moment.load:.1f} for each processor, above {settings.load:g} (training.load)"
    return None


def _cooling(moment: TrainerMoment, settings: TrainingSettings) -> str | None:
    """A negative time is a clock that was set back: the wait is over, rather than as long as the jump."""
    wait = settings.cooldown * min(LONGEST_BACKOFF, 2 ** max(0, moment.in_vain - 1))
    if moment.since_round is None or not 0 <= moment.since_round < wait:
        return None
    left = wait - moment.since_round
    more = f" after {moment.in_vain} rounds in vain" if moment.in_vain > 1 else ""
    return f"the last round ended {moment.since_round:.0f} s ago; the next one may begin in {left:.0f} s{more}"
