"""`experience.recorded` in, `alarm.raised` out."""

from __future__ import annotations

from conch.consumer.follow import follow
from conch.consumer.service import ServiceContext
from conch.consumer.spec import ConsumerSpec
from conch.log import get_logger
from conch.rewards.watch import CONSUMER, VERSION, WatchState, fold
from conch_schemas import AlarmRaised, ExperienceRecorded

log = get_logger(__name__)

LINGER = 0.03
"""Nobody waits for an alarm, which tells afterwards; what is to be scored goes first."""


def watch_consumer(context: ServiceContext) -> ConsumerSpec:
    """The fold of one agent's experiences: an event when an alarm begins and one when it is over."""
    settings, diversity = context.settings.watch, context.settings.rewards.diversity

    def watch(state: WatchState, experience: ExperienceRecorded) -> tuple[WatchState, list[AlarmRaised]]:
        state, changes = fold(state, experience, settings, diversity)
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

    return ConsumerSpec(
        name=CONSUMER,
        version=VERSION,
        kinds=(ExperienceRecorded,),
        handle=watch,
        state=WatchState,
        initial=WatchState,
        emits=(AlarmRaised,),
        linger=LINGER,
    )
