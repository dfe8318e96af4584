"""When an agent sleeps, for how long, and what wakes it. Pure functions of values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from conch.config import SleepSettings
from conch.cycle.goals import is_over
from conch.cycle.sleep.state import STIRS, SleepState
from conch.cycle.state.memory import AgentMemory
from conch_schemas import WakeReason

STIR_SECONDS = 3600.0
"""Time in which STIRS changed files or sensors wake at once."""
SHOWN_PATHS = 3
"""Changed files that a sentence names."""


STUCK: Final = 5
"""Times `cycle.sleep.after` acts without an effect after which an agent sleeps that does not choose to (ours)."""


class Wake(NamedTuple):
    """What wakes an agent."""

    by: WakeReason
    why: str
    """A sentence."""


def reason_to_sleep(memory: AgentMemory, settings: SleepSettings, roles: int = 1) -> str | None:
    """Why there is nothing to do, in a sentence, once a cycle is over; None: the next cycle follows.

    The last act is `DO_NOTHING` (of a team: of as many as it has roles), no message waits, and each open goal waits for
    a person or has had `settings.after` acts without an effect. After STUCK times as many in a row it sleeps whatever
    it did last, and whatever waits: more of the same would only use up the budget.
    """
    if not settings.first or memory.thought is not None:
        return None
    if memory.sleep.idle >= STUCK * settings.after:
        return f"{STUCK * settings.after} acts in a row had no effect"
    if memory.waiting:
        return None
    last = memory.recent[-roles:]
    if len(last) < roles or any(act.action.kind != "DO_NOTHING" or act.status == "unknown" for act in last):
        return None
    if last[-1].cycle != memory.next_cycle - 1:
        return None
    if not memory.goals:
        return "no goal is open"
    tried = memory.sleep.idle >= settings.after
    waits = [active for active in memory.goals.values() if not active.pays]
    rest = [active for active in memory.goals.values() if active.pays]
    if any(not tried or memory.next_cycle - active.since < settings.after for active in rest):
        return None
    if not rest:
        return "each open goal waits for a person's decision (conch goal list)"
    others = f", and {len(waits)} more wait for a person's decision" if waits else ""
    return f"{settings.after} acts in a row brought no open goal further{others}"


def length(state: SleepState, settings: SleepSettings) -> float:
    """Seconds of the next sleep: twice as many as of the one before it in the row, `settings.longest` at most."""
    return float(min(settings.longest, settings.first * 2.0**state.row))


def stirs_at_once(state: SleepState, now: datetime) -> bool:
    """Whether a changed file or a sensor wakes the agent at once: not where so many have done so lately without any
    progress after it, its own programs among them. Then it is seen when the sleep's time is over. A time in the future
    was written before the clock was set back, and does not count."""
    lately = [time for time in state.stirs if 0 <= (now - time).total_seconds() < STIR_SECONDS]
    return len(lately) < STIRS


def news(before: AgentMemory, after: AgentMemory, now: datetime) -> Wake | None:
    """What came since the agent fell asleep, and wakes it at once; None: nothing did."""
    known = {waiting.id for waiting in before.waiting}
    if fresh := [waiting for waiting in after.waiting if waiting.id not in known]:
        return Wake("message", f"a message of {fresh[0].sender} came")
    if after.settled != before.settled:
        return Wake("approval", "a person decided on an act")
    if (changed := _changed_goal(before, after)) is not None:
        return Wake("goal", changed)
    for active in after.goals.values():
        if is_over(active.goal, now):
            return Wake("deadline", f"the deadline of the goal {active.goal.id} has passed")
    return None


def sensed(before: AgentMemory, after: AgentMemory) -> Wake | None:
    """The sensor whose value is another one than when the agent fell asleep; None: there is none."""
    for name, reading in after.senses.items():
        known = before.senses.get(name)
        if known is None or known.value != reading.value:
            return Wake("sensor", f"the sensor {name} has another value")
    return None


def changed_files(paths: Sequence[str]) -> Wake | None:
    """The wake by these changed files; None: there are none."""
    if not paths:
        return None
    more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
    return Wake("file", f"changed in the workspace: {', '.join(paths[:SHOWN_PATHS])}{more}")


def _changed_goal(before: AgentMemory, after: AgentMemory) -> str | None:
    for id, active in after.goals.items():
        known = before.goals.get(id)
        if known is None:
            return f"the goal {id} was set"
        if (known.accepted, known.goal) != (active.accepted, active.goal):
            return f"the goal {id} was {'accepted' if active.accepted else 'changed'}"
    gone = [id for id in before.goals if id not in after.goals]
    return f"the goal {gone[0]} is no longer open" if gone else None
