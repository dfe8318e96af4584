"""An act that waits for an approval, as its agent puts it on the stream."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from conch.text import cut
from conch_schemas import ActAsked, Action, Event, ThoughtFormed, action_id, cycle_event_id, source_of


def asking(
    agent: str, agentuid: str, cycle: int, *, command: str = "make launch", until: datetime | None = None
) -> tuple[ThoughtFormed, ActAsked]:
    """The thought and the request of an act of this cycle; without a time, it waits for an hour from now."""
    action = action_id(agentuid, cycle)

    def said(kind: type[Event]) -> dict[str, Any]:
        return {
            "id": cycle_event_id(action, kind),
            "source": source_of(agent, agentuid),
            "agent": agent,
            "cycle": cycle,
            "action_id": action,
            "subject": action,
            "policy": "0123456789abcdef",
        }

    thought = ThoughtFormed(
        **said(ThoughtFormed), thought=cut("Launch it."), need="growth", pressing={}, model="test", ms=1.0
    )
    raw = cut(f'TOOL: shell(command="{command}")')
    asked = ActAsked(
        **said(ActAsked),
        messages=(),
        raw=raw.text,
        raw_length=raw.length,
        raw_sha256=raw.sha256,
        action=Action(kind="TOOL", valid=True, tool="shell", args={"command": command}),
        model="test",
        finish_reason="stop",
        ms=1.0,
        why="tools.policy (rule 1) asks for an approval of shell",
        until=until or datetime.now(UTC) + timedelta(hours=1),
    )
    return thought, asked
