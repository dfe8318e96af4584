"""The watchers of one agent: a pure fold over its experiences, and the alarms that begin and end."""

from __future__ import annotations

from typing import Final, NamedTuple

from conch.config import WatchSettings
from conch.folds import evolve
from conch.rewards.watch.look import WatchFinding, look
from conch.rewards.watch.state import ActiveAlarm, WatchState, forgotten, is_news, with_experience
from conch.rewards.watch.words import sentence
from conch_schemas import AlarmKind, ExperienceRecorded

CONSUMER: Final = "watch"
VERSION: Final = "1"
"""Of this fold: a change of any number in it is a new version."""

_COMPARING: Final = ("collapse", "length_drift", "held_out")


class AlarmChange(NamedTuple):
    """An alarm begins, or is over: the data of `alarm.raised`, field by field."""

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
    """What is remembered after `experience`, and the alarms that begin or end with it.

    Of each act its latest revision counts, once; acts are in the order of the stream, whatever order they are recorded
    in. What was counted before changes nothing, nor does an act from before those that are remembered. Another weight
    set begins everything anew, and ends the alarms there are. `diversity`: the entropy below which diversity is low.
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
    # What was done under the alarm is no measure of what is usual: compared with it, to come back would be a drift.
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
        what=f"the alarm {active.alarm}{of} is over: another weight set is in force",
    )
