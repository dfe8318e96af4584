"""A real Prometheus scrapes a real run: every panel has data, every rule is evaluated, exemplars lead to acts."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from conch.cli.common import open_bus
from conch.config import Settings
from conch.consumer.group.lag import report_position
from conch.home import Home
from conch_schemas import ActionTaken, TeamMessage, TeamPassed, TeamSwitched
from tests.metrics.conftest import make, make_act, make_experience
from tests.metrics.prometheus import Prometheus, mind
from tests.run.conftest import House, Live
from tests.training.lives import LineageLife, publish

OPS = Path(__file__).parents[2] / "ops"
BOARDS = OPS.parent / "conch" / "metrics" / "grafana"
RULES = '''
from conch import rule
from conch_schemas import ActionTaken


@rule(weight=0.2)
def short(action: ActionTaken) -> float:
    """Pays for few characters."""
    return max(0.0, 1 - len(action.raw) / 200)


@rule(held_out=True)
def plain(action: ActionTaken) -> float:
    """The share of different letters."""
    return len(set(action.raw)) / len(action.raw)
'''
REPLIES = (
    'TOOL: filesystem(operation="list", path=".")',
    'TOOL: filesystem(operation="read", path="nowhere.txt")',
    'TOOL: filesystem(operation="write", path="tide.md", content="the tide came in over the sand")',
    "DO_NOTHING: resting",
    "REFLECT: on the tide",
    "I think that this is no action",
    'TOOL: filesystem(operation="read", path="readme.txt")',
)
SMALL = {
    "CONCH_WATCH__RECENT": "20",
    "CONCH_WATCH__EARLIER": "20",
    "CONCH_REWARDS__DIVERSITY": "1",  # so that there is an alarm
    "CONCH_BUS__KEEP__DAYS": "1e-6",  # so that somebody holds up the trimming
    "CONCH_METRICS__PORT": "0",
    "CONCH_MIND__PRICE": "{input: 1, output: 4}",
    "CONCH_MIND__CURRENCY": "EUR",
    "CONCH_UI__ENABLED": "false",
}
OWN = ("__name__", "instance", "job")
"""Labels that are not ours."""
PROMISED = {
    "conch_cycles_total": {"agent", "kind", "outcome"},
    "conch_phase_duration_seconds_bucket": {"phase", "le"},
    "conch_reward_score_bucket": {"component", "le"},
    "conch_reward_gained_total": {"component"},
    "conch_reward_lost_total": {"component"},
    "conch_reward_coverage_ratio": {"agent"},
    "conch_act_to_reward_seconds_bucket": {"le"},
    "conch_act_to_reward_seconds_sum": set[str](),
    "conch_need_satisfaction_ratio": {"agent", "need"},
    "conch_consumer_pending_messages": {"consumer"},
    "conch_duplicates_total": {"consumer"},
    "conch_dead_letters_total": {"consumer"},
    "conch_llm_tokens_total": {"model", "type"},
    "conch_llm_cost_total": {"agent", "model", "currency"},
    "conch_llm_unpriced_replies_total": {"agent", "model"},
    "conch_last_cycle_timestamp_seconds": {"agent"},
    "conch_training_phase": {"agent", "phase"},
    "conch_training_generation": {"agent"},
    "conch_training_rounds_total": {"agent", "outcome"},
    "conch_training_gates_total": {"agent", "verdict"},
    "conch_training_rollbacks_total": {"agent", "trigger"},
    "conch_training_loss": {"agent"},
    "conch_training_last_move_timestamp_seconds": {"agent"},
    "conch_policy_changed_timestamp_seconds": {"agent"},
    "conch_team_passed_turns_total": {"agent", "role"},
    "conch_build_info": {"version"},
}
"""Names and labels that others build on."""


class Seen(NamedTuple):
    """A run that goes on, and the Prometheus that scrapes it."""

    house: House
    live: Live
    prometheus: Prometheus

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """What holds, once it does."""
        self.live.until(holds, what)
        return holds()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, needs: Callable[[str, str], None]) -> Iterator[Seen]:
    """An agent that works and fails, with a model, rules of its own, an alarm, and somebody who is far behind."""
    needs("prometheus", "install prometheus")
    place = tmp_path_factory.mktemp("prometheus")
    (place / "house").mkdir()
    house = House(place / "house")
    with ExitStack() as stack:
        stack.callback(house.close)
        house.run("--cycles", "3", "--script", house.script("DO_NOTHING: resting"))
        asyncio.run(_leave_behind(house.home))
        (house.directory / "rules.py").write_text(RULES)
        environment = SMALL | stack.enter_context(mind(REPLIES))
        live = house.begin("--rules", str(house.directory / "rules.py"), interval=0.1, **environment)
        live.recorded(1)
        live.until(lambda: house.status().get("metrics"), "the metrics' address")
        asyncio.run(_train(house.home))
        asyncio.run(_team_up(house.home))
        prometheus = Prometheus(place / "prometheus", house.status()["metrics"], OPS / "prometheus" / "conch.yml")
        stack.callback(prometheus.close)
        yield Seen(house, live, prometheus)
        live.signal(signal.SIGTERM)
        live.ended()


async def _leave_behind(home: Path) -> None:
    async with open_bus(Home(home), Settings()) as bus:
        await report_position(bus, "gone", [ActionTaken], 1)


async def _train(home: Path) -> None:
    """The whole life of a lineage, with a round that trains."""
    async with open_bus(Home(home), Settings()) as bus:
        await publish(bus, LineageLife(begun=datetime.now(UTC)).whole(running=True))


async def _team_up(home: Path) -> None:
    """A step of a team that gained and one that lost, a passed turn, a message, a switch."""
    turn = {"team": "crew", "role": "coder", "step": 0, "epoch": 0, "topology": "flat"}
    told = {"team": "crew", "sender": "coder", "to": ("critic",), "step": 0, "epoch": 0, "text": "done"}
    events = (
        make_act(agent="crew", team=turn, usage={"input_tokens": 9, "output_tokens": 7}),
        make_experience(agent="crew", team=turn),
        make_experience(agent="crew", cycle=1, team=turn, total=-0.1),
        make(TeamPassed, agent="crew", team="crew", role="coder", step=2, epoch=0, why="no worker answered"),
        make(TeamMessage, agent="crew", **told),
        make(TeamSwitched, agent="crew", team="crew", epoch=1, topology="star"),
    )
    async with open_bus(Home(home), Settings()) as bus:
        await publish(bus, events)


def _panels() -> Iterator[Any]:
    for file in sorted(BOARDS.glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel["targets"]:
                name = f"{file.stem}: {panel['title']} {target['refId']}"
                yield pytest.param(target["expr"], target["legendFormat"], id=name)


def _variables() -> Iterator[Any]:
    for file in sorted(BOARDS.glob("*.json")):
        for variable in json.loads(file.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                yield pytest.param(variable["query"], id=f"{file.stem}: {variable['name']}")


def _chosen(query: str) -> str:
    """The query with everything chosen above the panels, as Grafana writes it."""
    for name in ("instance", "agent", "component", "consumer"):
        query = query.replace(f'"${name}"', '".*"')
    query = query.replace("$__rate_interval", "10s").replace("$__range", "1m")
    assert "$" not in query
    return query


@pytest.mark.parametrize(("query", "legend"), [*_panels()])
def test_every_panel_has_data(seen: Seen, query: str, legend: str) -> None:
    """Numbers, with the labels that its legend names."""
    asked = _chosen(query)

    found = seen.until(lambda: seen.prometheus.figures(asked), f"data for {asked}")

    for label in (word.split("}}")[0] for word in legend.split("{{")[1:]):
        assert all(label in labels for labels, _ in found), f"{legend}: {found[0]}"


@pytest.mark.parametrize("query", [*_variables()])
def test_every_choice_above_the_panels_has_values(seen: Seen, query: str) -> None:
    """There is something to choose from."""
    asked = _chosen(query)

    assert seen.until(lambda: seen.prometheus.values(asked), f"values for {asked}")


def test_the_metrics_that_others_build_on_are_there(seen: Seen) -> None:
    """With these labels and no others."""
    for name, labels in PROMISED.items():
        found = seen.until(lambda name=name: seen.prometheus.asks("series", match=name), name)
        assert {frozenset(one) - set(OWN) for one in found} == {frozenset(labels)}, name


def test_every_rule_is_evaluated(seen: Seen) -> None:
    """Without an error, and each recording rule comes to a figure."""
    groups = yaml.safe_load((OPS / "prometheus" / "conch.yml").read_text())["groups"]
    number = sum(len(group["rules"]) for group in groups)

    def evaluated() -> list[dict[str, Any]] | None:
        told = seen.prometheus.asks("rules") or {"groups": ()}
        rules = [rule for group in told["groups"] for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None

    rules = seen.until(evaluated, "the rules")

    assert len(rules) == number
    assert [rule for rule in rules if rule["health"] != "ok"] == []
    for rule in groups[0]["rules"]:
        assert seen.until(lambda name=rule["record"]: seen.prometheus.figures(name), rule["record"])


def test_an_alert_of_the_watchers_fires(seen: Seen) -> None:
    """What goes on in the run is an alert in Prometheus, with its agent."""

    def firing() -> list[dict[str, Any]]:
        alerts = (seen.prometheus.asks("alerts") or {"alerts": ()})["alerts"]
        return [one["labels"] for one in alerts if one["state"] == "firing" and one["labels"].get("agent") == "echo"]

    found = seen.until(firing, "an alert")

    assert {"ConchWatcherAlarm"} <= {one["alertname"] for one in found}
    assert {one["alarm"] for one in found if one["alertname"] == "ConchWatcherAlarm"} == {"falling_entropy"}


def test_prometheus_keeps_exemplars_that_lead_to_acts(seen: Seen) -> None:
    """Of counters and of buckets: each names cycle and id of an act that there is, and its trace."""
    made_act = make_act().action_id  # of the team, which is in no store of the run
    found: list[dict[str, str]] = []
    for name in ("conch_cycles_total", "conch_phase_duration_seconds_bucket", "conch_reward_score_bucket"):

        def kept(name: str = name) -> list[dict[str, str]]:
            told = seen.prometheus.asks("query_exemplars", query=name, start="0", end="9999999999") or ()
            labels = [exemplar["labels"] for one in told for exemplar in one["exemplars"]]
            return [one for one in labels if one["action_id"] != made_act]

        found += seen.until(kept, f"exemplars of {name}")

    first = found[0]
    shown = json.loads(seen.house.conch("cycle", "show", first["cycle"], "--json"))["cycle"]
    assert (shown["action_id"], shown["trace_id"]) == (first["action_id"], first["trace_id"])
    acts = {str(row["cycle"]): row["action_id"] for row in seen.house.cycles()}
    assert all(acts[labels["cycle"]] == labels["action_id"] for labels in found)
    assert len({labels["trace_id"] for labels in found}) == len({labels["cycle"] for labels in found})


def test_promtool_has_nothing_to_say_of_a_real_scrape(seen: Seen, needs: Callable[[str, str], None]) -> None:
    """Of everything that a run counts."""
    needs("promtool", "install prometheus")
    with urllib.request.urlopen(seen.house.status()["metrics"]) as answer:
        text = answer.read()

    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60)

    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
