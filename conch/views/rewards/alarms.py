"""The view of alarms: what each says, how much it matters, its figure now, and whether a person has seen it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from conch.config import Settings
from conch.requests import AlarmKey, key_of
from conch.rewards.watch import ActiveAlarm, Severity, WatchState, alarm_name, look, severity
from conch.views.base import View
from conch_schemas import AlarmKind


class AlarmRow(View):
    """An alarm that is active."""

    agent: str
    alarm: AlarmKind
    name: str
    """In plain words."""
    severity: Severity
    component: str | None
    """None: it is about all of them."""
    since: int | None
    """The cycle that raised it."""
    value: float
    """Its figure when it began."""
    now: float | None
    """Its figure now; None: there are too few acts for one."""
    threshold: float
    what: str
    """A sentence."""
    acknowledged: str | None
    """When a person acknowledged it, ISO 8601, UTC; None: no person has."""


class AlarmAcknowledged(View):
    """An alarm that a person has acknowledged."""

    schema_: Literal["conch.v1.alarm.acknowledged"] = Field(default="conch.v1.alarm.acknowledged", alias="schema")
    agent: str
    alarm: AlarmKind
    component: str | None
    since: int | None
    """The cycle that raised it."""
    acknowledged: str
    """When, first; ISO 8601, UTC."""


def alarm_rows(
    states: Mapping[str, WatchState], settings: Settings, known: Mapping[AlarmKey, datetime]
) -> list[AlarmRow]:
    """The alarms of these agents: what no person has seen first, and of those what is serious; then by agent.

    `known`: those acknowledged.
    """
    rows = [
        _row(agent, active, now.get((active.alarm, active.component)), known)
        for agent, state in states.items()
        if state.active
        for now in [_figures(state, settings)]
        for active in state.active
    ]
    rows.sort(key=lambda one: (one.acknowledged is not None, one.severity != "serious", one.agent))
    return rows


def _figures(state: WatchState, settings: Settings) -> dict[tuple[str, str | None], float]:
    """Each watched figure of an agent as of its newest act."""
    return {(one.alarm, one.component): one.value for one in look(state, settings.watch, settings.rewards.diversity)}


def _row(agent: str, active: ActiveAlarm, now: float | None, known: Mapping[AlarmKey, datetime]) -> AlarmRow:
    seen = known.get(key_of(agent, active))
    return AlarmRow(
        agent=agent,
        alarm=active.alarm,
        name=alarm_name(active.alarm),
        severity=severity(active.alarm),
        component=active.component,
        since=active.cycle,
        value=active.value,
        now=now,
        threshold=active.threshold,
        what=active.what,
        acknowledged=None if seen is None else seen.isoformat(),
    )
