"""Needs and how they changed, as `conch need list | history --json` and the pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conch.config import NeedsSettings
from conch.needs import initial_state, most_pressing, pressing, priorities_of
from conch_schemas import NeedsChanged


def needs_shown(needs: NeedsSettings, last: NeedsChanged | None) -> dict[str, Any]:
    """`conch.v1.needs`: each need of the settings as of the last change; without one, as an agent is born."""
    levels, priorities = dict(initial_state(needs).levels), priorities_of(needs)
    if last is not None:
        levels |= {need: level for need, level in last.after.items() if need in levels}
    press, most = pressing(levels, priorities), most_pressing(levels, priorities)
    rows = [
        {"need": n, "satisfaction": levels[n], "priority": priorities[n], "pressing": press[n], "most": n == most}
        for n in priorities
    ]
    return {"schema": "conch.v1.needs", "needs": rows}


def changes_shown(changes: Sequence[NeedsChanged]) -> dict[str, Any]:
    """`conch.v1.need_changes`: a row each."""
    return {"schema": "conch.v1.need_changes", "changes": [_row(change) for change in changes]}


def _row(change: NeedsChanged) -> dict[str, Any]:
    data = change.model_dump(mode="json")["data"]
    names = ("before", "after", "drift", "changes", "most_pressing")
    return {
        "agent": change.agent,
        "cycle": change.cycle,
        "action_id": change.action_id,
        "time": change.time.isoformat(),
    } | {name: data[name] for name in names}
