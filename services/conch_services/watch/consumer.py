"""The watch consumer: reads `experience.recorded`, publishes `alarm.raised`."""

from __future__ import annotations

from conch import consumer
from conch.config import Settings
from conch.consumer import follow
from conch.log import get_logger
from conch.rewards.watch import CONSUMER, VERSION, WatchState, fold
from conch_schemas import AlarmRaised, ExperienceRecorded

log = get_logger(__name__)

LINGER = 0.03
"""Seconds to wait after an event, so that scoring goes first: no other consumer waits for an alarm."""


@consumer(
    ExperienceRecorded,
    name=CONSUMER,
    version=VERSION,
    state=WatchState,
    linger=LINGER,
    emits=[AlarmRaised],
    setup=lambda context: context.settings,
)
def watch(
    state: WatchState, experience: ExperienceRecorded, settings: Settings
) -> tuple[WatchState, list[AlarmRaised]]:
    """The fold of one agent's experiences: an event when an alarm begins and one when it is over."""
    state, changes = fold(state, experience, settings.watch, settings.rewards.diversity)
    alarms = [
        follow(experience, AlarmRaised, consumer=CONSUMER, version=VERSION, index=index, **change._asdict())
        for index, change in enumerate(changes)
    ]
    for alarm in alarms:
        log.warning(
            alarm.TYPE,
            agent_id=alarm.agent,
            cycle=alarm.cycle,
            alarm=alarm.alarm,
            component=alarm.component,
            active=alarm.active,
            what=alarm.what,
        )
    return state, alarms
