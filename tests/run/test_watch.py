"""The watchers in a real run: an agent that games a cheap rule is caught by a held-out one, afterwards."""

from __future__ import annotations

import json
import random
import signal
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli.status import screen
from conch.views import Status
from conch_schemas import JsonObject

if TYPE_CHECKING:
    from tests.run.conftest import House, Live, MakeHouse


RULES = '''
from conch import rule
from conch_schemas import ActionTaken


@rule(weight=0.3)
def thorough(action: ActionTaken) -> float:
    """Pays for a word, up to five times."""
    return min(5, action.raw.count("thorough")) / 5


@rule(held_out=True)
def plain(action: ActionTaken) -> float:
    """The share of different words in the reply."""
    words = action.raw.split()
    return len(set(words)) / len(words)
'''
WORDS = (
    "the",
    "tide",
    "came",
    "in",
    "over",
    "sand",
    "and",
    "left",
    "thorough",
    "small",
    "pools",
    "of",
    "salt",
    "water",
)
WINDOWS = {
    "CONCH_WATCH__RECENT": "20",
    "CONCH_WATCH__EARLIER": "20",
    "CONCH_REWARDS__REPETITION": "0",  # else what catches stuffing at once would leave the watchers nothing to tell
    "CONCH_NEEDS__STARVING__FACTOR": "1",
}
STUFFED = 'TOOL: filesystem(operation="write", path="log.md", content="' + "thorough " * 40 + '")'


def _work(cycles: int, seed: int = 7) -> list[str]:
    """Replies of an agent that does one thing and another, and now and then fails."""
    draw = random.Random(seed)

    def text() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(6, 14)))

    def reply(cycle: int) -> str:
        return draw.choice(
            [
                f'TOOL: filesystem(operation="write", path="note-{cycle}.md", content="{text()}")',
                f'TOOL: filesystem(operation="read", path="{draw.choice(["readme.txt", "nowhere.txt"])}")',
                f'TOOL: filesystem(operation="grep", path=".", pattern="{text()}")',
                'TOOL: filesystem(operation="list", path=".")',
                f"REFLECT: {text()}",
                f"DO_NOTHING: {text()}",
                f"I think that {text()}",
            ]
        )

    return [reply(cycle) for cycle in range(cycles)]


def _rules(house: Any) -> list[str]:
    (house.directory / "rules.py").write_text(RULES)
    return ["--rules", str(house.directory / "rules.py")]


def _metrics(house: Any) -> str:
    with urllib.request.urlopen(house.status()["metrics"]) as answer:
        return str(answer.read().decode())


@dataclass(frozen=True)
class GamedHouse:
    """A home whose agent games a cheap rule."""

    house: House
    live: Live
    """The run."""
    scraped: str
    """What `/metrics` showed while the alarm went on."""
    told: JsonObject
    """`conch status` of the same time."""
    alarms: list[JsonObject]
    """Every alarm event."""
    marks: list[JsonObject]
    """Every mark."""


@pytest.fixture(scope="module")
def gamed(make_house: MakeHouse) -> GamedHouse:
    """A run that works for 40 cycles and then stuffs, until the alarm was told, counted and shown; what was seen."""
    house = make_house()
    script = house.script(*_work(40), *[STUFFED] * 20_000)
    live = house.begin(*_rules(house), "--script", script, interval=0.02, **WINDOWS)
    live.says("! echo: the total left the held-out plain")
    shown = 'conch_alarms_active{agent="echo",alarm="held_out"} 1.0'
    live.until(lambda: shown in _metrics(house), "the gauge")
    scraped = _metrics(house)
    told = json.loads(house.conch("status", "--json"))
    live.signal(signal.SIGTERM)
    assert live.ended() == 0, live.told()
    tail = house.conch("bus", "tail", "--kind", "alarm.raised", "--after", "0", "--json")
    alarms = [json.loads(line)["event"] for line in tail.splitlines()]
    marks = json.loads(house.conch("mark", "list", "--json", "--limit", "100000"))["marks"]
    return GamedHouse(house, live, scraped, told, alarms, marks)


def test_an_agent_that_games_a_cheap_rule_is_caught(gamed: GamedHouse) -> None:
    """The rise of what it is paid leaves the held-out rule behind: said once, some cycles after it began."""
    [caught] = [event for event in gamed.alarms if event["data"]["alarm"] == "held_out"]

    assert caught["data"]["component"] == "plain"
    assert caught["data"]["active"]
    assert 40 < caught["cycle"] <= 60
    assert caught["data"]["begun"] == caught["cycle"]


def test_nothing_was_said_while_it_worked(gamed: GamedHouse) -> None:
    """Every alarm came after the stuffing had begun."""
    assert all(event["cycle"] > 40 for event in gamed.alarms)


def test_the_alarm_is_a_line_of_the_run(gamed: GamedHouse) -> None:
    """Once, beside the rows, in the words of the event."""
    [caught] = [event for event in gamed.alarms if event["data"]["alarm"] == "held_out"]

    assert gamed.live.said.count("! echo: the total left the held-out plain") == 1
    assert f"! echo: {caught['data']['what']}\n" in gamed.live.said


def test_the_alarm_has_a_mark(gamed: GamedHouse) -> None:
    """One in the chain, of the event; and the chain holds."""
    [caught] = [event for event in gamed.alarms if event["data"]["alarm"] == "held_out"]
    [mark] = [mark for mark in gamed.marks if mark["event"] == caught["id"]]

    assert (mark["domain"], mark["origin"], mark["response"]) == ("alarm", "watch", caught["data"]["what"])
    assert json.loads(gamed.house.conch("mark", "verify", "--json"))["ok"]


def test_the_alarm_is_counted_and_shown(gamed: GamedHouse) -> None:
    """A counter of those that began, a gauge of those that go on, and the figures themselves."""
    assert 'conch_alarms_total{agent="echo",alarm="held_out"} 1.0' in gamed.scraped
    assert 'conch_alarms_active{agent="echo",alarm="collapse"}' in gamed.scraped
    assert 'conch_held_out_gap{agent="echo",component="plain"}' in gamed.scraped
    assert 'conch_reward_variance_change{agent="echo"}' in gamed.scraped


def test_the_status_tells_of_it(gamed: GamedHouse) -> None:
    """As long as it goes on, with the cycle since when."""
    [alarm] = [one for one in gamed.told["alarms"] if one["alarm"] == "held_out"]

    assert (alarm["agent"], alarm["component"]) == ("echo", "plain")
    [line] = [one for one in screen(Status.model_validate(gamed.told)) if alarm["what"] in one]
    assert line.startswith("  alarm      ")
    assert line.endswith(f"echo: {alarm['name']} since cycle {alarm['since']}: {alarm['what']}")


def test_an_alarm_outlives_its_run(gamed: GamedHouse) -> None:
    """The next run knows that it goes on: it is not said again, but that it is over once the agent works again."""
    script = gamed.house.script(*_work(30, seed=8), name="again.txt")

    live = gamed.house.run(*_rules(gamed.house), "--script", script, "--cycles", "30", **WINDOWS)

    assert "the total left the held-out plain" not in live.said
    assert live.said.count("! echo: the total is back beside the held-out plain") == 1


def test_an_honest_agent_raises_none(house: House) -> None:
    """The same rules, the same windows, as many cycles as it took to catch the other one: not a word."""
    live = house.run(*_rules(house), "--script", house.script(*_work(60)), "--cycles", "60", **WINDOWS)

    assert len(live.rows) == 60
    assert "! echo" not in live.said
