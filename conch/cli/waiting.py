"""What an agent waits for that has not answered a message, in words."""

from __future__ import annotations

from conch.text import safe_text

WAITS = {
    "paused": "is paused: conch resume lets it go on",
    "approval": "waits for your approval of an act: conch approve list shows it",
    "budget": "is paused by its budget",
    "mind": "waits for its mind",
    "bus": "waits for its bus",
    "failed": "is set aside",
}
"""What is said of an agent in a state in which it answers nothing."""
WITH_REASON = ("budget", "mind", "bus", "failed")
"""States whose reason is told, with its end as far as that is known."""


def waits_words(agent: str, state: str, why: str) -> str:
    """What the agent waits for, in a sentence; empty for a state in which it answers."""
    if state not in WAITS:
        return ""
    reason = safe_text(why, one_line=True) if state in WITH_REASON else ""
    return f"{agent} {WAITS[state]}{f': {reason}' if reason else ''}"
