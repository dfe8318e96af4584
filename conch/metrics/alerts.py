"""Alerting rules for Prometheus, generated for the reward parts in force: what is wrong, where, and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypedDict

from conch.config import NeedSettings, Settings
from conch.metrics.recording import BEFORE, RECENT
from conch.text import safe_text
from conch_schemas import AlarmKind, Part

LONGEST_LABEL = 64
"""Characters of a label's value: the metrics cut longer names."""
SILENT_SECONDS = 300.0
"""Without an act, beside ten times the interval between two cycles; then as long again before the alert."""
FALL = 0.1
"""Share of the total's range by which its mean is below what it was."""
PART_FALL = 0.2
"""The same of one component and its range: one part moves more than their sum."""
UNBOUNDED = 1000.0
"""A range as wide as that is none: nothing is compared with it."""
COVERAGE_FLOOR = 0.8
"""Least scored share of the weight, over a quarter of an hour."""
FAILED = 0.1
"""Share of a component's scores that are errors or come too late."""
LAG = 1000
"""Events that wait for a consumer: some fifty cycles of one agent."""
REFUSED = 3
"""Rounds in a row whose adapter was refused: nothing better is made of the data."""
STALE_DAYS = 7.0
"""Without a promotion or a rollback, of an agent that acts and is trained."""
PASSED = 3
"""Turns of a role in a quarter of an hour that passed, as its worker was silent."""
ASLEEP = "conch_agent_asleep_until_timestamp_seconds"
"""The end of an agent's sleep. A process that dies asleep says no further one, so that it is past from then on."""
STARVING = 0.2
"""Satisfaction of a need: the same need was the most urgent one for long."""

AGENT, COMPONENT, CONSUMER, NEED, ROLE, TRIGGER = (
    f"{{{{ $labels.{name} }}}}" for name in ("agent", "component", "consumer", "need", "role", "trigger")
)
VALUE, NUMBER, SHARE = '{{ printf "%.2f" $value }}', '{{ printf "%.0f" $value }}', "{{ $value | humanizePercentage }}"
"""In a summary: what Prometheus puts there."""

Severity = Literal["critical", "warning", "info"]

ALARMS: Final[Mapping[AlarmKind, tuple[str, str]]] = {
    "collapse": (
        "The total of {agent} hardly varies any more, so nothing is learned from it",
        "conch reward list shows which components still differ; one that always pays the same can lose its weight",
    ),
    "length_drift": (
        "Replies of {agent} have become several times as long, or as short",
        "conch cycle list shows them; a rule that pays by length is the usual reason (conch reward show NAME)",
    ),
    "falling_entropy": (
        "{agent} does the same again and again",
        "conch cycle list shows what; give it another goal (conch goal add), or raise rewards.diversity",
    ),
    "held_out": (
        "The total of {agent} rises and a held-out score does not follow, as where what is paid is gamed",
        "train on nothing since then, and compare conch reward show of the component that pays most with the cycles",
    ),
}
"""The meaning of each alarm of the watchers, and what to do. Dominance is not among them: `ConchComponentDominates`,
which names the component."""


AlertRule = TypedDict(
    "AlertRule", {"alert": str, "expr": str, "for": str, "labels": dict[str, str], "annotations": dict[str, str]}
)
"""An alert in Prometheus's format; `for`: how long its condition must last. By a call, as `for` is a keyword."""


def alert_rules(settings: Settings, parts: Sequence[Part], needs: Mapping[str, NeedSettings]) -> Iterator[AlertRule]:
    """The rules in Prometheus's format. `parts`: the weight set; `needs`: by name."""
    yield _alert(
        "ConchNotScraped",
        "absent(conch_build_info)",
        "5m",
        "critical",
        "No metrics of Conch arrive, so no other alert can: start conch run or conch metrics serve, and see that "
        "Prometheus scrapes its address (conch status shows it)",
    )
    yield from _agents(settings, parts)
    for part in parts:
        yield from _component(part)
    yield from _needs(needs)
    yield from _watched(settings)
    yield from _trained()
    yield _silent_role()
    yield from _consumers()


def _agents(settings: Settings, parts: Sequence[Part]) -> Iterator[AlertRule]:
    fall = _width(parts) * FALL
    window = f"{SILENT_SECONDS + 10 * settings.cycle.interval:.0f}s"
    yield _alert(
        "ConchAgentSilent",
        f"changes(conch_last_cycle_timestamp_seconds[{window}]) == 0 "
        "unless on (agent) conch_budget_waits_until_timestamp_seconds > time() "
        f"unless on (agent) {ASLEEP} > time()",
        window,
        "critical",
        f"{AGENT} does not act any more: conch status says why (paused, its mind does not answer, the hour's tokens "
        "are used up), conch resume lets it go on",
    )
    yield _alert(
        "ConchRewardFalling",
        f"agent:conch_reward:mean{RECENT} < agent:conch_reward:mean{BEFORE} offset {RECENT} - {fall:.3g}",
        "15m",
        "warning",
        f"The reward of {AGENT} is down to {VALUE} on average: conch reward list shows which "
        "component fell, conch cycle list what it does",
    )
    yield _alert(
        "ConchCoverageLow",
        f"agent:conch_reward_coverage:mean15m < {COVERAGE_FLOOR}",
        "15m",
        "warning",
        f"Only {SHARE} of the reward's weight of {AGENT} is scored: conch reward list shows "
        "whose scores are errors or late, conch consumer lag who is behind",
    )


def _component(part: Part) -> Iterator[AlertRule]:
    least, greatest = part.range
    own = {"component": _label(part.component)}
    bears = part.weight or part.task_weight or part.role not in ("paid", "held_out")
    severity: Severity = "warning" if bears else "info"
    chosen = f"{{component={_quoted(own['component'])}}}"
    mean = "component:conch_reward_score:mean"
    if greatest - least < UNBOUNDED:
        fall = (greatest - least) * PART_FALL
        yield _alert(
            "ConchComponentFalling",
            f"{mean}{RECENT}{chosen} < {mean}{BEFORE}{chosen} offset {RECENT} - {fall:.3g}",
            "15m",
            severity,
            f"{COMPONENT} is down to {VALUE} on average, of {least:g} to {greatest:g}: conch reward show "
            f"{COMPONENT} has its last scores and why",
            own,
        )
    yield _alert(
        "ConchComponentFailing",
        f"component:conch_scores_failed:ratio30m{chosen} > {FAILED}",
        "15m",
        severity,
        f"{SHARE} of the scores of {COMPONENT} are errors or come too late: conch reward show "
        f"{COMPONENT} says which and why, conch consumer lag whether its scorer is behind",
        own,
    )


def _needs(needs: Mapping[str, NeedSettings]) -> Iterator[AlertRule]:
    for name, need in needs.items():
        helps = [event for event, change in sorted(need.events.items(), key=lambda one: -one[1]) if change > 0]
        advice = f"what satisfies it is {', '.join(helps)}" if helps else "no event satisfies it (needs.own)"
        own = {"need": _label(name)}
        yield _alert(
            "ConchNeedStarving",
            f"conch_need_satisfaction_ratio{{need={_quoted(own['need'])}}} < {STARVING} "
            f"unless on (agent) {ASLEEP} > time()",
            "15m",
            "warning",
            f"{NEED} of {AGENT} starves at {SHARE}: {advice}; conch need history shows since when",
            own,
        )


def _watched(settings: Settings) -> Iterator[AlertRule]:
    yield _alert(
        "ConchComponentDominates",
        f"conch_reward_variance_share_ratio > {settings.watch.dominance:g}",
        "10m",
        "warning",
        f"{COMPONENT} makes {SHARE} of the variance of the reward of "
        f"{AGENT}: the others teach nothing beside it; conch reward weights lowers its weight",
    )
    for alarm, (what, advice) in ALARMS.items():
        yield _alert(
            "ConchWatcherAlarm",
            f'conch_alarms_active{{alarm="{alarm}"}} > 0',
            "0s",
            "warning",
            f"{what.format(agent=AGENT)}: {advice}",
            {"alarm": alarm},
        )


def _trained() -> Iterator[AlertRule]:
    yield _alert(
        "ConchTrainingFailed",
        'increase(conch_training_rounds_total{outcome="failed"}[1h]) > 0',
        "0s",
        "warning",
        f"A round of training of {AGENT} failed: conch train show says why; the agent acts on as before",
    )
    yield _alert(
        "ConchGateRefusing",
        f"conch_training_refusals >= {REFUSED}",
        "0s",
        "warning",
        f"The adapters of the last {NUMBER} rounds of {AGENT} were refused: conch train show names the condition that "
        "did not hold, conch data stats the rows that they were trained on",
    )
    yield _alert(
        "ConchPolicyRolledBack",
        "increase(conch_training_rollbacks_total[1h]) > 0",
        "0s",
        "warning",
        f"The adapter of {AGENT} was taken back ({TRIGGER}): conch train show says why, conch train list what acts now",
    )
    yield _alert(
        "ConchPolicyStale",
        f"time() - conch_training_last_move_timestamp_seconds > {STALE_DAYS * 86_400:.0f} "
        "and on (job, instance, agent) changes(conch_last_cycle_timestamp_seconds[1h]) > 0",
        "1h",
        "info",
        f"{AGENT} acts under the same adapter for {{{{ $value | humanizeDuration }}}}: conch train list shows how the "
        "rounds since then ended, conch train run begins one",
    )


def _silent_role() -> AlertRule:
    return _alert(
        "ConchTeamRoleSilent",
        f"increase(conch_team_passed_turns_total[15m]) >= {PASSED}",
        "0s",
        "warning",
        f"The role {ROLE} of the team {AGENT} lost {NUMBER} turns, as its worker did not answer: see that "
        f"conch team role {AGENT} {ROLE} runs and reaches the bus; a slow mind needs a longer team.NAME.turn_seconds",
    )


def _consumers() -> Iterator[AlertRule]:
    yield _alert(
        "ConchConsumerLag",
        f"conch_consumer_pending_messages > {LAG}",
        "10m",
        "warning",
        f"{NUMBER} events wait for {CONSUMER}: conch consumer lag shows it; conch consume {CONSUMER} beside "
        f"the run takes a share, conch consumer forget {CONSUMER} where it is gone for good",
    )
    yield _alert(
        "ConchDeadLetters",
        "increase(conch_dead_letters_total[15m]) > 0",
        "0s",
        "warning",
        f"{CONSUMER} could not handle {NUMBER} events: conch dlq list shows why, conch dlq retry takes them "
        "once more when that is mended",
    )


def _alert(
    name: str, expression: str, holds: str, severity: Severity, summary: str, own: Mapping[str, str] | None = None
) -> AlertRule:
    """`holds`: how long the condition must last before the alert; `own`: labels that make it unique among its name."""
    labels = {"severity": severity, **{label: _template(value) for label, value in (own or {}).items()}}
    return {"alert": name, "expr": expression, "for": holds, "labels": labels, "annotations": {"summary": summary}}


def _width(parts: Sequence[Part]) -> float:
    """From the least to the greatest total that the weights allow, what has no bounds left out."""
    widths = ((part.weight, part.range[0], min(part.range[1], part.cap or part.range[1])) for part in parts)
    return sum(weight * (high - low) for weight, low, high in widths if high - low < UNBOUNDED)


def _label(name: str) -> str:
    """`name` as the value of a metric's label."""
    return safe_text(name[:LONGEST_LABEL], one_line=True)


def _template(text: str) -> str:
    """The text with its braces escaped: labels of a rule are templates."""
    return text.replace("{{", '{{ "{{" }}')


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
