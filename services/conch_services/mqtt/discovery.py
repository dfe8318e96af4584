"""Home Assistant discovery: retained messages that describe an agent's sensors to Home Assistant.

Retained messages under `<prefix>/<component>/<object>/config`, as https://www.home-assistant.io/integrations/mqtt
documents them. They name topics that the facts go to anyway; nothing is published for Home Assistant alone but these.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import NamedTuple

from conch.text import safe_text
from conch_schemas import ExperienceRecorded, JsonObject, NeedsChanged
from conch_services.mqtt.topics import status_topic

NAME_LETTERS = 60
"""Characters of a need's name that are shown."""


class RetainedMessage(NamedTuple):
    """A message that the broker retains for later subscribers."""

    topic: str
    payload: bytes


def announce_agent(prefix: str, agent: str, host: str) -> Iterator[RetainedMessage]:
    """Sensors that every agent has: reward, cycle, and whether it is there.

    `host`: the agent with the status that the last will changes; the others are available as long as that one is.
    """
    recorded = f"conch/{agent}/{ExperienceRecorded.TYPE.replace('.', '/')}"
    yield _sensor(prefix, agent, host, "reward", "Reward", recorded, "{{ value_json.data.total }}", "measurement")
    yield _sensor(prefix, agent, host, "cycle", "Cycle", recorded, "{{ value_json.cycle }}", "total_increasing")
    about = {
        "state_topic": status_topic(agent),
        "value_template": "{{ 'ON' if value_json.state == 'online' else 'OFF' }}",
        "device_class": "connectivity",
        **(_availability(host) if agent != host else {}),
    }
    yield _config(prefix, "binary_sensor", agent, "status", "Status", about)


def announce_need(prefix: str, agent: str, host: str, need: str) -> RetainedMessage:
    """The sensor of one need, from 0 starved to 1 satisfied; its name may be any text."""
    changed = f"conch/{agent}/{NeedsChanged.TYPE.replace('.', '/')}"
    template = f"{{{{ value_json.data.after[{_literal(need)}] }}}}"
    shown = safe_text(need, one_line=True)[:NAME_LETTERS] or "?"
    return _sensor(
        prefix, agent, host, f"need_{_token(need)}", shown[:1].upper() + shown[1:], changed, template, "measurement"
    )


def _sensor(
    prefix: str, agent: str, host: str, object: str, name: str, topic: str, template: str, state_class: str
) -> RetainedMessage:
    about = {"state_topic": topic, "value_template": template, "state_class": state_class}
    return _config(prefix, "sensor", agent, object, name, about | _availability(host))


def _availability(host: str) -> JsonObject:
    return {
        "availability": [{"topic": status_topic(host), "value_template": "{{ value_json.state }}"}],
        "payload_available": "online",
        "payload_not_available": "offline",
    }


def _config(prefix: str, component: str, agent: str, object: str, name: str, about: JsonObject) -> RetainedMessage:
    unique = f"conch_{agent}_{object}"
    config = {
        "name": name,
        "unique_id": unique,
        "qos": 1,
        **about,
        "device": {
            "identifiers": [f"conch_{agent}"],
            "name": f"Conch {agent}",
            "manufacturer": "Conch",
            "model": "agent",
            "sw_version": version("conch-agent"),
        },
        "origin": {"name": "Conch", "sw_version": version("conch-agent")},
    }
    return RetainedMessage(f"{prefix}/{component}/{unique}/config", json.dumps(config).encode())


def _literal(text: str) -> str:
    """`text` as a string of Jinja's, which reads Python's escapes: any content stays text."""
    return '"' + re.sub(r"[^A-Za-z0-9_-]", lambda one: f"\\U{ord(one[0]):08x}", text) + '"'


def _token(text: str) -> str:
    """`text` as an id of Home Assistant's ([a-zA-Z0-9_-]), still unique when characters had to go."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", text)[:NAME_LETTERS]
    return plain if plain == text else f"{plain}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
