"""The reward parts that an experience waits for: built-in rules, discovered rules, judges, and external scorers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID, uuid5

from conch.bus import Bus, OutgoingMessage, newest
from conch.config import Settings
from conch.consumer.plugins.discover import Discovery
from conch.errors import ConfigError
from conch.rewards import absent_weights, weight_set, weights_version
from conch.rules import RuleInfo
from conch_schemas import Part, WeightsSet, encode, source_of, subject_filter, subject_of

JUDGE_RANGE = (0.0, 1.0)


def expected_parts(settings: Settings, plugins: Discovery) -> tuple[Part, ...]:
    """The weight set of these settings and plug-ins. Raises ConfigError where they do not go together."""
    added: dict[str, RuleInfo] = {}
    for rule in added_rules(settings, plugins):
        if (other := added.get(rule.name)) is not None:
            raise ConfigError(f"{other.origin} and {rule.origin} both score {rule.name}: give one of them another name")
        added[rule.name] = rule
    builtin = settings.training.reward_weights.by_component
    return weight_set(list(added.values()), settings.rewards, settings.constitution, builtin)


def asked_weights(settings: Settings, plugins: Discovery) -> dict[str, float]:
    """The weight that each part that is not built in asks for."""
    return {rule.name: rule.weight for rule in added_rules(settings, plugins)}


def set_aside_weights(settings: Settings, plugins: Discovery) -> dict[str, float]:
    """The weights of the table `rewards.weights`, more than 0, whose components nothing scores here, by name."""
    absent = absent_weights(settings.rewards.weights, asked_weights(settings, plugins))
    return {name: weight for name, weight in absent.items() if weight}


def judge_scorer(name: str) -> str:
    """The scorer's name in the scores of a component's judge."""
    return f"judge-{name}"


def added_rules(settings: Settings, plugins: Discovery) -> Iterator[RuleInfo]:
    """Each rule that is not built in: those that were found, the judges, and the components that are scored outside."""
    yield from plugins.rules
    for name, judge in settings.rewards.judges.items():
        yield RuleInfo(
            name,
            weight=judge.weight,
            low=JUDGE_RANGE[0],
            high=JUDGE_RANGE[1],
            held_out=judge.held_out,
            scorer=judge_scorer(name),
            deadline=judge.deadline,
            origin=f"rewards.judges.{name}",
        )
    for name, outside in settings.rewards.parts.items():
        yield RuleInfo(
            name,
            weight=outside.weight,
            low=outside.range[0],
            high=outside.range[1],
            held_out=outside.held_out,
            scorer=outside.scorer,
            deadline=outside.deadline,
            origin=f"rewards.parts.{name}",
        )


async def weights_in_force(bus: Bus, agents: Sequence[str]) -> list[tuple[int, WeightsSet | None]]:
    """(sequence on the stream, weight set) of each agent, in their order; None where none was set yet."""
    found = await newest(bus, [subject_filter(WeightsSet, agent) for agent in agents])
    return [(seq, event if isinstance(event, WeightsSet) else None) for seq, event in found]


async def report_weights(bus: Bus, agents: Mapping[str, str], parts: Sequence[Part], why: str) -> tuple[str, ...]:
    """Publish the weights of these agents (name -> UUID) where they changed; returns the names of those agents.

    The id is derived from the set and the sequence of the set before, so two publications at once are one event.
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
