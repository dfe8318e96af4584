"""The MQTT topic of an event."""

from __future__ import annotations

import re

_FACT = re.compile(r"conch\.v1\.([a-z0-9][a-z0-9-]{0,62})\.([a-z0-9][a-z0-9_-]{0,62})\.([a-z0-9][a-z0-9_-]{0,62})")


def fact_topic(subject: str) -> str | None:
    """`conch/<agent>/<noun>/<verb>` of `conch.v1.<agent>.<noun>.<verb>`.

    None where the subject is no fact's: nothing that is a wildcard, a level or a control character to a broker ever
    gets into a topic.
    """
    found = _FACT.fullmatch(subject)
    return "/".join(("conch", *found.groups())) if found is not None else None


def status_topic(agent: str) -> str:
    """The topic of an agent's retained status; it has a level less than every event's topic."""
    return f"conch/{agent}/status"
