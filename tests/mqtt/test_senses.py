"""From what sensors say to what is said of it: how often, how often twice, and to whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from conch.config.model import SenseSettings
from conch_services.mqtt.sensors import Measurement, SensorInbox, fact

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
AGENTUID = "6b0c29a5-9d4e-4a86-8a8c-3c8f6f2f9b11"


class Heard:
    """Senses on a clock of the test's."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0.0
        senses = {name: SenseSettings.model_validate({"topic": name} | more) for name, more in settings.items()}
        self.senses = SensorInbox(senses, clock=lambda: self.now)

    def hear(self, topic: str, payload: bytes, *, kept: bool = False) -> bool:
        return self.senses.hear(topic, payload, kept, BEGAN + timedelta(seconds=self.now))

    def said(self) -> list[tuple[str, Any]]:
        return [(one.sense, one.value) for one in self.senses.due()]


def test_of_many_words_the_newest_is_said_when_its_time_has_come() -> None:
    """The first at once, then one in `every` seconds: the last of them."""
    heard = Heard(door={"every": 10})

    heard.hear("door", b"1")
    first = heard.said()
    for second in (1, 2, 3):
        heard.now = second
        heard.hear("door", str(second + 1).encode())
    early, left = heard.said(), heard.senses.next
    heard.now = 10.0

    assert (first, early, left) == ([("door", 1.0)], [], pytest.approx(7.0))
    assert heard.said() == [("door", 4.0)]
    assert heard.senses.next is None


def test_a_topic_reaches_every_sense_whose_filter_takes_it() -> None:
    """Two values of one payload, and wildcards."""
    heard = Heard(
        warmth={"topic": "home/+/climate", "path": "t"}, damp={"topic": "home/#", "path": "h"}, other={"topic": "x"}
    )

    heard.hear("home/kitchen/climate", b'{"t": 21, "h": 40}')

    assert heard.said() == [("warmth", 21.0), ("damp", 40.0)]
    assert heard.senses.filters == ("home/+/climate", "home/#", "x")


def test_what_the_broker_keeps_is_said_once() -> None:
    """With every new connection it hands over the same again: no news, until it is another."""
    heard = Heard(door={})

    assert heard.hear("door", b"open", kept=True)
    assert heard.said() == [("door", "open")]
    heard.now = 1000.0
    assert not heard.hear("door", b"open", kept=True)
    assert heard.hear("door", b"closed", kept=True)


def test_the_same_again_is_a_repetition_for_a_moment_only() -> None:
    """A message that came twice is one; a sensor that says the same later has measured anew."""
    heard = Heard(door={"every": 5})

    assert heard.hear("door", b"open")
    assert heard.said() == [("door", "open")]
    heard.now = 4.0
    assert not heard.hear("door", b"open")
    heard.now = 6.0
    assert heard.hear("door", b"open")


def test_what_the_bridge_says_itself_is_not_heard() -> None:
    """A sense of everything would hear its own facts for ever."""
    heard = Heard(all={"topic": "#", "path": "data.value"})

    assert not heard.hear("conch/echo/sense/measured", b'{"data": {"value": 1}}')
    assert not heard.hear("", b"1")


def test_bad_payloads_are_counted_and_said_once_a_minute() -> None:
    """However many come, one log line a sense and minute names the reason."""
    heard = Heard(door={"path": "t"}, wind={"topic": "door"})
    with capture_logs() as logs:
        for second in range(90):
            heard.now = float(second)
            heard.hear("door", b"\xff")

    assert heard.senses.refused == {("door", "not_text"): 90, ("wind", "not_text"): 90}
    assert [(line["sense"], line["reason"], line["payloads"]) for line in logs] == [
        ("door", "not_text", 1), ("wind", "not_text", 1), ("door", "not_text", 60), ("wind", "not_text", 60),
    ]  # fmt: skip


def test_a_fact_is_the_same_for_the_same_message() -> None:
    """Its id follows from agent, sense, topic and message; a number has the unit, a word has none."""
    settings = SenseSettings(topic="a/b", unit="°C")
    one = Measurement("t", 21.5, "a/b", BEGAN, False, "k")

    made = fact(one, settings, "echo", AGENTUID)
    again = fact(one, settings, "echo", AGENTUID)
    other = fact(Measurement("t", "warm", "a/b", BEGAN, False, "l"), settings, "echo", AGENTUID)

    assert (made.id, made.unit, made.received) == (again.id, "°C", BEGAN)
    assert (other.id == made.id, other.unit) == (False, "")
