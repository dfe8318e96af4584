"""Which parts an experience waits for: the built-in ones, the rules that were found, judges, and what others score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID, uuid5

from conch.bus import Bus, OutgoingMessage
from conch.bus.newest import newest
from conch.config import Settings
from conch.consumer.plugins.discover import Discovery
from conch.errors import ConfigError
from conch.rewards import PluginPart, weight_set, weights_version
from conch_schemas import Part, WeightsSet, encode, source_of, subject_filter, subject_of

JUDGE_RANGE = (0.0, 1.0)


def expected_parts(settings: Settings, plugins: Discovery) -> tuple[Part, ...]:
    """The weight set of these settings and plug-ins. Raises ConfigError where they do not go together."""
    sources: dict[str, str] = {}
    added: list[PluginPart] = []
    for source, part in _added(settings, plugins):
        if (other := sources.get(part.component)) is not None:
            raise ConfigError(f"{other} and {source} both score {part.component}: give one of them another name")
        sources[part.component] = source
        added.append(part)
    return weight_set(added, settings.rewards, settings.constitution)


def asked_weights(settings: Settings, plugins: Discovery) -> dict[str, float]:
    """What each part that is not built in asks for."""
    return {part.component: part.weight for _, part in _added(settings, plugins)}


def judge_scorer(name: str) -> str:
    """Under which name the judge of a component says its scores."""
    return f"judge-{name}"


def _added(settings: Settings, plugins: Discovery) -> Iterator[tuple[str, PluginPart]]:
    """Where each part that is not built in comes from, and what it asks for."""
    for rule in plugins.of("rule"):
        yield rule.origin, PluginPart(rule.name, rule.weight, (rule.low, rule.high), rule.name, held_out=rule.held_out)
    for name, judge in settings.rewards.judges.items():
        part = PluginPart(name, judge.weight, JUDGE_RANGE, judge_scorer(name), judge.deadline, judge.held_out)
        yield f"rewards.judges.{name}", part
    for name, outside in settings.rewards.parts.items():
        scorer = outside.scorer or name
        part = PluginPart(name, outside.weight, outside.range, scorer, outside.deadline, outside.held_out)
        yield f"rewards.parts.{name}", part


async def weights_in_force(bus: Bus, agents: Sequence[str]) -> list[tuple[int, WeightsSet | None]]:
    """(place in the stream, weight set) of each agent, in their order; None where nobody set any yet."""
    found = await newest(bus, [subject_filter(WeightsSet, agent) for agent in agents])
    return [(seq, event if isinstance(event, WeightsSet) else None) for seq, event in found]


async def report_weights(bus: Bus, agents: Mapping[str, str], parts: Sequence[Part], why: str) -> tuple[str, ...]:
    """Set the weights of these agents (name -> UUID), where that is news; the names of those for whom it is.

    The id follows from the set and the place of the one before it, so said twice at once is said once.
    """
    version = weights_version(parts)
    news: dict[str, OutgoingMessage] = {}
    before = await weights_in_force(bus, list(agents))
    for (name, agentuid), (seq, known) in zip(agents.items(), before, strict=True):
        if known is not None and known.version == version:
            continue
        event = WeightsSet(
            id=str(uuid5(UUID(agentuid), f"weights.set/{version}/{seq}")),
            source=source_of(name, agentuid),
            agent=name,
            version=version,
            parts=tuple(parts),
            why=why,
        )
        news[name] = OutgoingMessage(subject_of(event), encode(event), event.id)
    if news:
        await bus.publish_many(list(news.values()))
    return tuple(news)
