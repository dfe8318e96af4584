"""The alarms that a person has acknowledged: a file of the home, so that a restart forgets none."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from conch.errors import HomeError
from conch.files import read_plain
from conch.home import write_whole

if TYPE_CHECKING:
    from conch.home import Home
    from conch.rewards.watch import ActiveAlarm

MOST_KEPT: Final = 1000
"""Acknowledgements that are kept, the newest."""
MOST_BYTES: Final = 1_000_000


class AlarmKey(NamedTuple):
    """What tells an alarm from every other: the same alarm that begins again is another one."""

    agent: str
    alarm: str
    component: str | None
    since: int | None
    """The cycle that it began with."""


def key_of(agent: str, active: ActiveAlarm) -> AlarmKey:
    """The key of an active alarm of an agent."""
    return AlarmKey(agent, active.alarm, active.component, active.cycle)


def acknowledged(home: Home) -> dict[AlarmKey, datetime]:
    """When each alarm was acknowledged first, UTC; the oldest first. Raises HomeError where the file is damaged."""
    file = home.acknowledged_file
    try:
        rows = json.loads(read_plain(file, MOST_BYTES))
        return {AlarmKey(*key): datetime.fromisoformat(when).astimezone(UTC) for *key, when in rows}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise HomeError(f"{file} cannot be read ({error}): remove it, and acknowledge its alarms anew") from None


def acknowledge(home: Home, key: AlarmKey, now: datetime) -> datetime:
    """Note that a person has seen this alarm; returns since when. A second call changes nothing. Raises HomeError."""
    with _alone(home):
        known = acknowledged(home)
        if key in known:
            return known[key]
        rows = [[*one, when.isoformat()] for one, when in [*known.items(), (key, now.astimezone(UTC))]]
        try:
            write_whole(home.acknowledged_file, json.dumps(rows[-MOST_KEPT:], ensure_ascii=False))
        except OSError as error:
            raise HomeError(f"{home.acknowledged_file} cannot be written ({error.strerror}): make room") from None
    return now


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """No other process writes the file meanwhile. Held for milliseconds."""
    handle = os.open(home.acknowledged_file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
