"""Writes the rules file for Prometheus: recording rules and alerts."""

from __future__ import annotations

from typing import TypedDict

import yaml

from conch.config import Settings
from conch.consumer import expected_parts
from conch.consumer.plugins import Discovery
from conch.metrics.alerts import AlertRule, alert_rules
from conch.metrics.recording import RecordingRule, recording_rules
from conch.needs import needs_of

HEAD = "# Rules of Conch for Prometheus (rule_files), made by `conch metrics rules`.\n"


class RuleGroup(TypedDict):
    """A group of rules in Prometheus's format."""

    name: str
    rules: list[RecordingRule] | list[AlertRule]


def rule_groups(settings: Settings, plugins: Discovery) -> list[RuleGroup]:
    """The groups of rules that fit these settings and plug-ins, as Prometheus reads them.

    Raises ConfigError where they do not go together.
    """
    parts = expected_parts(settings, plugins)
    alerts = alert_rules(settings, parts, needs_of(settings.needs))
    return [
        {"name": "conch.recording", "rules": list(recording_rules())},
        {"name": "conch.alerts", "rules": list(alerts)},
    ]


def as_yaml(groups: list[RuleGroup]) -> str:
    """The file's text; the same groups give the same text."""
    return HEAD + yaml.safe_dump({"groups": groups}, sort_keys=False, allow_unicode=True, width=120)
