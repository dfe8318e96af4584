"""The views of needs and their changes, for `conch need list | history --json` and the pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from conch.config import NeedsSettings
from conch.needs import initial_state, most_pressing, pressing, priorities_of
from conch.views.base import View
from conch_schemas import NeedChange, NeedsChanged


class NeedRow(View):
    """A need with its satisfaction and priority."""

    need: str
    satisfaction: float
    """0 starved to 1 satisfied."""
    priority: float
    """Its share of all needs, 0..1."""
    pressing: float
    """priority × (0.5 + urgency)."""
    most: bool
    """Whether it is the most pressing one."""


class Needs(View):
    """The needs of an agent, as `conch need list --json` prints them."""

    schema_: Literal["conch.v1.needs"] = Field(default="conch.v1.needs", alias="schema")
    needs: tuple[NeedRow, ...]


class NeedChangeRow(View):
    """A change of needs, with what made it. Levels are 0..1."""

    agent: str
    cycle: int | None
    """None for a change outside of cycles."""
    action_id: str | None
    time: str
    before: dict[str, float]
    after: dict[str, float]
    drift: dict[str, float]
    """The change by time alone, by need."""
    changes: tuple[NeedChange, ...]
    """The change that each cause asked for, before levels are clipped to 0..1."""
    most_pressing: str


class NeedChanges(View):
    """Some changes of needs, as `conch need history --json` prints them."""

    schema_: Literal["conch.v1.need_changes"] = Field(default="conch.v1.need_changes", alias="schema")
    changes: tuple[NeedChangeRow, ...]
    """Oldest first."""


def needs_shown(needs: NeedsSettings, last: NeedsChanged | None) -> Needs:
    """Each need of the settings as of the last change; without one, as an agent is born."""
    levels, priorities = dict(initial_state(needs).levels), priorities_of(needs)
    if last is not None:
        levels |= {need: level for need, level in last.after.items() if need in levels}
    press, most = pressing(levels, priorities), most_pressing(levels, priorities)
    rows = [
        NeedRow(need=n, satisfaction=levels[n], priority=priorities[n], pressing=press[n], most=n == most)
        for n in priorities
    ]
    return Needs(needs=tuple(rows))


def changes_shown(changes: Sequence[NeedsChanged]) -> NeedChanges:
    """A row for each change."""
    return NeedChanges(changes=tuple(map(_row, changes)))


def _row(change: NeedsChanged) -> NeedChangeRow:
    return NeedChangeRow(
        agent=change.agent,
        cycle=change.cycle,
        action_id=change.action_id,
        time=change.time.isoformat(),
        before=change.before,
        after=change.after,
        drift=change.drift,
        changes=change.changes,
        most_pressing=change.most_pressing,
    )
