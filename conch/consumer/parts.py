"""Which parts an experience waits for: the built-in ones, the rules that were found, judges, and what others score."""

from __future__ import annotations

from collections.abc import Iterator

from conch.config import Settings
from conch.consumer.discover import Found
from conch.errors import ConfigError
from conch.rewards import PluginPart, weight_set
from conch_schemas import Part

JUDGE_RANGE = (0.0, 1.0)


def expected_parts(settings: Settings, plugins: Found) -> tuple[Part, ...]:
    """The weight set of these settings and plug-ins. Raises ConfigError where they do not go together."""
    sources: dict[str, str] = {}
    added: list[PluginPart] = []
    for source, part in _added(settings, plugins):
        if (other := sources.get(part.component)) is not None:
            raise ConfigError(f"{other} and {source} both score {part.component}: give one of them another name")
        sources[part.component] = source
        added.append(part)
    return weight_set(added, settings.rewards, settings.constitution)


def judge_scorer(name: str) -> str:
    """Under which name the judge of a component says its scores."""
    return f"judge-{name}"


def _added(settings: Settings, plugins: Found) -> Iterator[tuple[str, PluginPart]]:
    """Where each part that is not built in comes from, and what it asks for."""
    for rule in plugins.of("rule"):
        yield rule.origin, PluginPart(rule.name, rule.weight, (rule.low, rule.high), rule.name)
    for name, judge in settings.rewards.judges.items():
        part = PluginPart(name, judge.weight, JUDGE_RANGE, judge_scorer(name), judge.deadline, judge.held_out)
        yield f"rewards.judges.{name}", part
    for name, outside in settings.rewards.parts.items():
        scorer = outside.scorer or name
        part = PluginPart(name, outside.weight, outside.range, scorer, outside.deadline, outside.held_out)
        yield f"rewards.parts.{name}", part
