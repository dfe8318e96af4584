"""The rules for Prometheus: promtool reads them, fires each alert where it is due, and none where all is well."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
import yaml

from conch.config import Settings
from conch.consumer.plugins.discover import Discovery
from conch.metrics.alerts import ALARMS
from conch.metrics.rules import as_yaml, rule_groups
from conch.rules import RuleInfo
from conch_schemas import AlarmKind

JOY = RuleInfo("joy", "1", origin="joy.py", weight=0.2, low=0.0, high=4.0)
MINUTES = 480
"""Of the figures that a test makes: more than the rules look back."""

HEALTHY = {
    'conch_build_info{version="1"}': f"1x{MINUTES}",
    'conch_last_cycle_timestamp_seconds{agent="echo"}': f"0+60x{MINUTES}",
    'conch_reward_last{agent="echo"}': f"0.4+0x{MINUTES}",
    'conch_reward_coverage_ratio{agent="echo"}': f"1+0x{MINUTES}",
    'conch_reward_gained_total{component="joy"}': f"0+60x{MINUTES}",
    'conch_reward_lost_total{component="joy"}': f"0+0x{MINUTES}",
    'conch_scores_total{component="joy",status="scored"}': f"0+60x{MINUTES}",
    'conch_scores_total{component="joy",status="timeout"}': f"0+1x{MINUTES}",
    'conch_scores_total{component="joy",status="not_applicable"}': f"0+600x{MINUTES}",
    'conch_need_satisfaction_ratio{agent="echo",need="curiosity"}': f"0.3+0x{MINUTES}",
    'conch_reward_variance_share_ratio{agent="echo",component="joy"}': f"0.7+0x{MINUTES}",
    'conch_consumer_pending_messages{consumer="store"}': f"900+0x{MINUTES}",
    'conch_team_passed_turns_total{agent="echo",role="coder"}': f"1+0x{MINUTES}",
    'conch_dead_letters_total{consumer="store"}': f"3+0x{MINUTES}",
    'conch_training_rounds_total{agent="echo",outcome="failed"}': f"1+0x{MINUTES}",
    'conch_training_refusals{agent="echo"}': f"2+0x{MINUTES}",
    'conch_training_rollbacks_total{agent="echo",trigger="worse"}': f"1+0x{MINUTES}",
    'conch_training_last_move_timestamp_seconds{agent="echo"}': f"-518400+0x{MINUTES}",
    **{f'conch_alarms_active{{agent="echo",alarm="{alarm}"}}': f"0+0x{MINUTES}" for alarm in get_args(AlarmKind)},
}
"""A figure a minute, as promtool writes them."""


class Wrong(NamedTuple):
    """What goes wrong in the last hour, and what is said of it."""

    alert: str
    series: Mapping[str, str]
    """In place of healthy ones; an empty one is gone."""
    labels: Mapping[str, str]
    says: str
    """What is wrong; what to do stands behind it."""


def _turned(before: str, after: str) -> str:
    return f"{before}x{MINUTES - 60} {after}x60"


def _alarm(alarm: str) -> dict[str, str]:
    return {f'conch_alarms_active{{agent="echo",alarm="{alarm}"}}': _turned("0+0", "1+0")}


SLEPT = 60 * (MINUTES - 50)
"""When the sleep of an agent that died asleep should have ended, seconds."""
ECHO = {"agent": "echo", "severity": "warning"}
WRONGS = [
    Wrong(
        "ConchNotScraped",
        {'conch_build_info{version="1"}': ""},
        {"severity": "critical"},
        "No metrics of Conch arrive, so no other alert can",
    ),
    Wrong(
        "ConchAgentSilent",
        {'conch_last_cycle_timestamp_seconds{agent="echo"}': _turned("0+60", "25200+0")},
        {"agent": "echo", "severity": "critical"},
        "echo does not act any more",
    ),
    Wrong(
        "ConchRewardFalling",
        {'conch_reward_last{agent="echo"}': _turned("0.4+0", "0.1+0")},
        ECHO,
        "The reward of echo is down to 0.10 on average",
    ),
    Wrong(
        "ConchCoverageLow",
        {'conch_reward_coverage_ratio{agent="echo"}': _turned("1+0", "0.7+0")},
        ECHO,
        "Only 70% of the reward's weight of echo is scored",
    ),
    Wrong(
        "ConchComponentFalling",
        {'conch_reward_gained_total{component="joy"}': f"0+180x{MINUTES - 60} 75600+6x60"},
        {"component": "joy", "severity": "warning"},
        "joy is down to 0.10 on average, of 0 to 4",
    ),
    Wrong(
        "ConchComponentFailing",
        {'conch_scores_total{component="joy",status="timeout"}': f"0+1x{MINUTES - 60} 420+20x60"},
        {"component": "joy", "severity": "warning"},
        "25% of the scores of joy are errors or come too late",
    ),
    Wrong(
        "ConchComponentFailing",
        {
            'conch_scores_total{component="joy",status="scored"}': "",
            'conch_scores_total{component="joy",status="timeout"}': f"0+1x{MINUTES}",
        },
        {"component": "joy", "severity": "warning"},
        "100% of the scores of joy are errors or come too late",
    ),
    Wrong(
        "ConchNeedStarving",
        {'conch_need_satisfaction_ratio{agent="echo",need="curiosity"}': _turned("0.3+0", "0.1+0")},
        {"need": "curiosity", **ECHO},
        "curiosity of echo starves at 10%",
    ),
    Wrong(
        "ConchComponentDominates",
        {'conch_reward_variance_share_ratio{agent="echo",component="joy"}': _turned("0.7+0", "0.9+0")},
        {"component": "joy", **ECHO},
        "joy makes 90% of the variance of the reward of echo",
    ),
    Wrong(
        "ConchWatcherAlarm",
        _alarm("collapse"),
        {"alarm": "collapse", **ECHO},
        "The total of echo hardly varies any more, so nothing is learned from it",
    ),
    Wrong(
        "ConchWatcherAlarm",
        _alarm("length_drift"),
        {"alarm": "length_drift", **ECHO},
        "Replies of echo have become several times as long, or as short",
    ),
    Wrong(
        "ConchWatcherAlarm",
        _alarm("falling_entropy"),
        {"alarm": "falling_entropy", **ECHO},
        "echo does the same again and again",
    ),
    Wrong(
        "ConchWatcherAlarm",
        _alarm("held_out"),
        {"alarm": "held_out", **ECHO},
        "The total of echo rises and a held-out score does not follow, as where what is paid is gamed",
    ),
    Wrong(
        "ConchTrainingFailed",
        {'conch_training_rounds_total{agent="echo",outcome="failed"}': f"1+0x{MINUTES - 20} 2+0x20"},
        {"outcome": "failed", **ECHO},
        "A round of training of echo failed",
    ),
    Wrong(
        "ConchGateRefusing",
        {'conch_training_refusals{agent="echo"}': _turned("2+0", "3+0")},
        ECHO,
        "The adapters of the last 3 rounds of echo were refused",
    ),
    Wrong(
        "ConchPolicyRolledBack",
        {'conch_training_rollbacks_total{agent="echo",trigger="worse"}': f"1+0x{MINUTES - 20} 2+0x20"},
        {"trigger": "worse", **ECHO},
        "The adapter of echo was taken back (worse)",
    ),
    Wrong(
        "ConchPolicyStale",
        {'conch_training_last_move_timestamp_seconds{agent="echo"}': f"-691200+0x{MINUTES}"},
        {"agent": "echo", "severity": "info"},
        "echo acts under the same adapter for 8d 7h 55m 0s",
    ),
    Wrong(
        "ConchTeamRoleSilent",
        {'conch_team_passed_turns_total{agent="echo",role="coder"}': f"1+0x{MINUTES - 12} 3+1x12"},
        {"role": "coder", **ECHO},
        "The role coder of the team echo lost 8 turns, as its worker did not answer",
    ),
    Wrong(
        "ConchConsumerLag",
        {'conch_consumer_pending_messages{consumer="store"}': _turned("900+0", "4000+0")},
        {"consumer": "store", "severity": "warning"},
        "4000 events wait for store",
    ),
    Wrong(
        "ConchDeadLetters",
        {'conch_dead_letters_total{consumer="store"}': f"3+0x{MINUTES - 12} 5+0x12"},
        {"consumer": "store", "severity": "warning"},
        "store could not handle 2 events",
    ),
]


@pytest.fixture
def promtool(needs: Callable[[str, str], None], tmp_path: Path) -> Callable[..., str]:
    """`promtool("check", "rules", FILE)`: what it says; it must have nothing against it."""
    needs("promtool", "install prometheus")

    def run(*arguments: str) -> str:
        done = subprocess.run(["promtool", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def _groups(*plugins: RuleInfo, **settings: Any) -> list[dict[str, Any]]:
    return rule_groups(Settings.model_validate(settings), Discovery(plugins))


def _alerts(groups: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
    return [rule for group in groups for rule in group["rules"] if rule.get("alert") == name]


def test_promtool_has_nothing_against_the_rules(promtool: Callable[..., str], tmp_path: Path) -> None:
    """Its linter neither: also with judges, outside parts, needs of one's own and whatever names they bear."""
    parts = {"taste": {"weight": 0.1, "range": (-5, 5)}}
    judges = {"tone": {"rubric": "tone.md", "weight": 0.1}}
    odd = {"priority": 1.0, "start": 0.5}
    needs = {"own": {'odd "need" {{ $x }}\\': odd}}
    (tmp_path / "plain.yml").write_text(as_yaml(_groups()))
    (tmp_path / "all.yml").write_text(
        as_yaml(_groups(JOY, rewards={"parts": parts, "judges": judges}, needs=needs, cycle={"interval": 3600}))
    )

    for file in ("plain.yml", "all.yml"):
        assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", file)


def test_every_alert_fires_where_it_is_due_and_nowhere_else(promtool: Callable[..., str], tmp_path: Path) -> None:
    """One thing wrong, and its alert alone says so; all well, and there is none."""
    groups = _groups(JOY)
    (tmp_path / "rules.yml").write_text(as_yaml(groups))
    names = {rule["alert"] for rule in groups[1]["rules"]}
    assert names == {wrong.alert for wrong in WRONGS}

    tests = [_test(names, groups, None), *(_test(names, groups, wrong) for wrong in WRONGS)]
    (tmp_path / "tests.yml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": "5m", "tests": tests})
    )

    assert "SUCCESS" in promtool("test", "rules", "tests.yml")


@pytest.mark.parametrize(("until", "fires"), [(1_000_000, False), (SLEPT, True)], ids=["asleep", "died asleep"])
def test_a_sleeping_agent_is_not_silent_and_one_that_died_asleep_is(
    until: int, fires: bool, promtool: Callable[..., str], tmp_path: Path
) -> None:
    """The end of its sleep is past, and no further sleep was said; its needs starve unsaid while it sleeps."""
    groups = _groups(JOY)
    (tmp_path / "rules.yml").write_text(as_yaml(groups))
    [silent] = [wrong for wrong in WRONGS if wrong.alert == "ConchAgentSilent"]
    asleep = {'conch_agent_asleep_until_timestamp_seconds{agent="echo"}': f"{until}+0x{MINUTES}"}
    found = _test({silent.alert}, groups, silent._replace(series={**silent.series, **asleep}))
    if not fires:
        [check] = found["alert_rule_test"]
        check["exp_alerts"] = []
    document = {"rule_files": ["rules.yml"], "evaluation_interval": "5m", "tests": [found]}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(document))

    assert "SUCCESS" in promtool("test", "rules", "tests.yml")


def _test(names: set[str], groups: Sequence[Mapping[str, Any]], wrong: Wrong | None) -> dict[str, Any]:
    series = {**HEALTHY, **(wrong.series if wrong is not None else {})}
    checks = []
    for name in sorted(names):
        expected = []
        if wrong is not None and name == wrong.alert:
            expected = [{"exp_labels": dict(wrong.labels), "exp_annotations": {"summary": _summary(groups, wrong)}}]
        checks.append({"eval_time": f"{MINUTES - 5}m", "alertname": name, "exp_alerts": expected})
    return {
        "interval": "1m",
        "name": wrong.alert if wrong is not None else "healthy",
        "input_series": [{"series": name, "values": values} for name, values in series.items() if values],
        "alert_rule_test": checks,
    }


def _summary(groups: Sequence[Mapping[str, Any]], wrong: Wrong) -> str:
    """What is wrong is the test's word, what to do about it the rule's."""
    rules = [rule for rule in _alerts(groups, wrong.alert) if rule["labels"].items() <= wrong.labels.items()]
    advice = rules[0]["annotations"]["summary"].partition(": ")[2]
    for label, value in wrong.labels.items():
        advice = advice.replace(f"{{{{ $labels.{label} }}}}", value)
    return f"{wrong.says}: {advice}"


def test_every_alert_says_what_to_do() -> None:
    """A command that there is, behind what is wrong."""
    for rule in _groups(JOY)[1]["rules"]:
        what, _, advice = rule["annotations"]["summary"].partition(": ")
        assert what
        assert "conch " in advice or "train on nothing" in advice


def test_every_alarm_of_the_watchers_has_an_alert() -> None:
    """Dominance has one of its own, which names the component."""
    assert {*ALARMS, "dominance"} == set(get_args(AlarmKind))


def test_rules_follow_what_is_paid_and_its_range() -> None:
    """Each component has its alerts: what is paid warns, what is watched informs. A fifth of the range is a fall, of
    the total a tenth; a range of a million is none."""
    parts = {"taste": {"range": (-5, 5)}, "cost": {"range": (-1e6, 1e6), "weight": 0.1}}
    groups = _groups(JOY, rewards={"parts": parts})

    falling = {rule["labels"]["component"]: rule for rule in _alerts(groups, "ConchComponentFalling")}

    assert {"joy", "taste", "format", "goal", "ethical"} <= set(falling)
    assert "cost" not in falling
    [total] = _alerts(groups, "ConchRewardFalling")
    assert 0.1 < float(total["expr"].rpartition(" - ")[2]) < 0.3
    assert falling["joy"]["expr"].endswith("offset 30m - 0.8")
    assert falling["taste"]["expr"].endswith("offset 30m - 2")
    assert (falling["joy"]["labels"]["severity"], falling["taste"]["labels"]["severity"]) == ("warning", "info")
    failing = [rule["labels"]["component"] for rule in _alerts(groups, "ConchComponentFailing")]
    assert set(falling) <= set(failing)


def test_rules_follow_the_settings() -> None:
    """A slow agent is silent later; dominance is where the watchers have it; needs are the person's own."""
    own = {"joy": {"priority": 1.0, "start": 0.5, "events": {"rested": 0.2}}}
    groups = _groups(cycle={"interval": 60}, watch={"dominance": 0.6}, needs={"own": own})

    [silent] = _alerts(groups, "ConchAgentSilent")
    assert (silent["expr"], silent["for"]) == (
        "changes(conch_last_cycle_timestamp_seconds[900s]) == 0 "
        "unless on (agent) conch_budget_waits_until_timestamp_seconds > time() "
        "unless on (agent) conch_agent_asleep_until_timestamp_seconds > time()",
        "900s",
    )
    assert _alerts(groups, "ConchComponentDominates")[0]["expr"].endswith("> 0.6")
    [starving] = _alerts(groups, "ConchNeedStarving")
    assert 'need="joy"' in starving["expr"]
    assert "what satisfies it is rested" in starving["annotations"]["summary"]
