"""What Home Assistant is told, held against what it documents, and its templates evaluated."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from conch_services.mqtt.discovery import RetainedMessage, announce_agent, announce_need
from conch_services.mqtt.presence import status

TEXT = {"type": "string", "minLength": 1}
DEVICE = {
    "type": "object",
    "properties": {
        "identifiers": {"type": "array", "items": TEXT, "minItems": 1},
        **dict.fromkeys(("name", "manufacturer", "model", "sw_version"), TEXT),
    },
    "required": ["identifiers", "name"],
    "additionalProperties": False,
}
ENTITY = {
    "name": TEXT,
    "unique_id": TEXT,
    "state_topic": TEXT,
    "value_template": TEXT,
    "qos": {"enum": [0, 1, 2]},
    "availability": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": dict.fromkeys(("topic", "value_template"), TEXT),
            "required": ["topic"],
            "additionalProperties": False,
        },
    },
    "payload_available": TEXT,
    "payload_not_available": TEXT,
    "device": DEVICE,
    "origin": {
        "type": "object",
        "properties": dict.fromkeys(("name", "sw_version", "support_url"), TEXT),
        "required": ["name"],
        "additionalProperties": False,
    },
}
SCHEMAS = {
    "sensor": {**ENTITY, "state_class": {"enum": ["measurement", "total", "total_increasing"]}},
    "binary_sensor": {**ENTITY, "device_class": {"const": "connectivity"}},
}
"""Of https://www.home-assistant.io/integrations/sensor.mqtt and binary_sensor.mqtt, the keys that are used here."""


def checked(message: RetainedMessage) -> dict[str, Any]:
    """The configuration in a message, held against what Home Assistant takes."""
    found = re.fullmatch(r"homeassistant/(sensor|binary_sensor)/([a-zA-Z0-9_-]+)/config", message.topic)
    assert found is not None, message.topic
    config: dict[str, Any] = json.loads(message.payload)
    schema = {
        "type": "object",
        "properties": SCHEMAS[found[1]],
        "required": ["name", "unique_id", "state_topic", "value_template", "device", "origin"],
        "additionalProperties": False,
    }
    jsonschema.validate(config, schema)
    assert config["unique_id"] == found[2]
    return config


def evaluated(template: str, payload: Any) -> str:
    """What Home Assistant makes of a JSON payload: Jinja in a sandbox, `value_json` being what it holds."""
    return str(ImmutableSandboxedEnvironment().from_string(template).render(value_json=payload))


def test_an_agent_is_a_device_with_reward_cycle_and_status() -> None:
    """Each sensor reads its value from a topic that facts or statuses go to."""
    configs = {config["name"]: config for config in map(checked, announce_agent("homeassistant", "echo", "echo"))}
    experience = {"cycle": 12, "data": {"total": 0.375}}

    assert {config["device"]["identifiers"][0] for config in configs.values()} == {"conch_echo"}
    assert configs["Reward"]["state_topic"] == "conch/echo/experience/recorded"
    assert evaluated(configs["Reward"]["value_template"], experience) == "0.375"
    assert configs["Cycle"]["state_topic"] == "conch/echo/experience/recorded"
    assert evaluated(configs["Cycle"]["value_template"], experience) == "12"
    assert configs["Status"]["state_topic"] == "conch/echo/status"


@pytest.mark.parametrize(("state", "shown"), [("online", "ON"), ("offline", "OFF")])
def test_the_status_says_on_or_off(state: str, shown: str) -> None:
    """What the status holds is what a binary sensor reads, and what makes the others available."""
    configs = {config["name"]: config for config in map(checked, announce_agent("homeassistant", "echo", "echo"))}
    said = json.loads(status("echo", state))
    [available] = configs["Reward"]["availability"]

    assert evaluated(configs["Status"]["value_template"], said) == shown
    assert available["topic"] == "conch/echo/status"
    assert evaluated(available["value_template"], said) == state
    assert configs["Reward"][f"payload_{'available' if state == 'online' else 'not_available'}"] == state


def test_agents_beside_the_host_are_there_as_long_as_it_is() -> None:
    """The last will changes one status; whoever hangs on it goes with it, its own status sensor too."""
    configs = list(map(checked, announce_agent("homeassistant", "echo-2", "echo")))

    assert [config["availability"][0]["topic"] for config in configs] == ["conch/echo/status"] * 3


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=200))
@example("curiosity")
@example('"] }}{{ 1/0 }}')
@example("a/b+c#d\0e")
@example("{% raw %}")
@example("\\u0022")
@example("Ünïcode 🐚")
def test_a_need_of_any_name_has_a_sensor_of_its_own(need: str) -> None:
    """Its topic is plain, and its template reads this need and nothing else."""
    message = announce_need("homeassistant", "echo", "echo", need)
    config = checked(message)

    value = evaluated(config["value_template"], {"data": {"after": {need: 0.25, need + "?": 0.5}}})

    assert value == "0.25"
    assert config["state_topic"] == "conch/echo/needs/changed"
    others = [announce_need("homeassistant", "echo", "echo", need + end).topic for end in "?!_"]
    assert len({message.topic, *others}) == 4
