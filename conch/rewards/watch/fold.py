"""The watchers of one agent: a pure fold over its experiences that gives the alarms beginning and ending."""

from __future__ import annotations

from typing import Final, NamedTuple

from conch.config import WatchSettings
from conch.folds import evolve
from conch.rewards.watch.look import WatchFinding, look
from conch.rewards.watch.state import ActiveAlarm, WatchState, forgotten, is_news, with_experience
from conch.rewards.watch.words import alarm_name, sentence
from conch_schemas import AlarmKind, ExperienceRecorded

CONSUMER: Final = "watch"
VERSION: Final = "3"
"""Version of this fold: it changes with any number in it."""

_COMPARING: Final = ("collapse", "length_drift", "held_out")


class AlarmChange(NamedTuple):
    """An alarm that begins or ends: the data of `alarm.raised`, field by field."""

    alarm: AlarmKind
    component: str | None
    active: bool
    begun: int | None
    value: float
    threshold: float
    window: int
    what: str


def fold(
    state: WatchState, experience: ExperienceRecorded, settings: WatchSettings, diversity: float
) -> tuple[WatchState, list[AlarmChange]]:
    """The state after `experience`, and the alarms that begin or end with it.

    Of each act the latest revision counts, once; acts are in stream order, in any order of recording. An experience
    that was counted before changes nothing, nor does an act older than those remembered. Another weight set resets the
    state, and ends all alarms. `diversity`: the entropy below which diversity is low.
    """
    if not is_news(state, experience):
        return state, []
    changes = [_ended_by_weights(active, settings) for active in state.active if experience.weights != state.weights]
    state = with_experience(state, experience, settings.recent, settings.recent + settings.earlier)
    active = {(one.alarm, one.component): one for one in state.active}
    compared = False
    for finding in look(state, settings, diversity):
        key = (finding.alarm, finding.component)
        if key in active and not finding.stays:
            changes.append(_change(finding, active.pop(key).cycle, settings, begins=False))
            compared |= finding.alarm in _COMPARING
        elif key not in active and finding.begins:
            change = _change(finding, experience.cycle, settings, begins=True)
            active[key] = ActiveAlarm(
                *key, experience.cycle, change.value, change.threshold, change.what, finding.baseline
            )
            changes.append(change)
    if changes:
        state = evolve(state, active=tuple(active.values()))
    # Acts under an alarm are no baseline: compared with them, a return to normal would look like a drift.
    return (forgotten(state, settings.recent) if compared else state), changes


def _change(finding: WatchFinding, begun: int | None, settings: WatchSettings, *, begins: bool) -> AlarmChange:
    return AlarmChange(
        alarm=finding.alarm,
        component=finding.component,
        active=begins,
        begun=begun,
        value=finding.value,
        threshold=finding.threshold,
        window=settings.recent,
        what=sentence(finding, settings.recent, begins=begins),
    )


def _ended_by_weights(active: ActiveAlarm, settings: WatchSettings) -> AlarmChange:
    of = f" of {active.component}" if active.component is not None else ""
    return AlarmChange(
        alarm=active.alarm,
        component=active.component,
        active=False,
        begun=active.cycle,
        value=active.value,
        threshold=active.threshold,
        window=settings.recent,
        what=f"{alarm_name(active.alarm)}{of}: over, as another weight set is in force",
    )
