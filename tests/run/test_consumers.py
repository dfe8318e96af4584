"""Plug-in consumers, and consumers that run alone."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.run.conftest import House


JOY = """
import os
from conch import consumer
from conch.consumer import follow
from conch_schemas import ActionTaken, RewardAssigned, Score


@consumer(ActionTaken, name="joy", version="1")
async def joy(action: ActionTaken) -> RewardAssigned:
    score = Score(component="joy", value=0.25, range=(0, 1), status="scored", explanation=str(os.getpid()),
                  scorer="joy", version="1")
    return follow(action, RewardAssigned, consumer="joy", version="1", scorer="joy", scores=(score,))
"""

LOUD = """
from pathlib import Path
from conch import consumer
from conch_schemas import ActionTaken, ThoughtFormed


@consumer(ActionTaken, ThoughtFormed, name="loud", version="1")
def loud(event):
    print("about to look at", event.TYPE)
    if not Path(__file__).with_name("well").exists():
        raise ValueError(f"no idea what {event.id} is")
"""
ALWAYS = """
from conch import rule


@rule(weight=0.1)
def broken(action):
    raise ValueError("always")
"""


def parts(row: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {score["component"]: score for score in row["scores"]}


def test_a_plugin_consumer_has_a_process_of_its_own(house: House) -> None:
    """What it publishes reaches the store; its process is one that `conch status` tells of."""
    (house.directory / "joy.py").write_text(JOY)
    live = house.begin("--rules", str(house.directory / "joy.py"), "--script", house.endless(), interval=0.1)
    live.recorded(2)
    joy, others = house.process("joy"), [house.process(name)["pid"] for name in ("agent", "consumers")]
    live.signal(signal.SIGTERM)
    assert live.ended() == 0

    scores = [parts(row).get("joy") for row in house.cycles()]
    assert joy["state"] == "up"
    assert joy["pid"] not in others
    assert all(score is not None and score["value"] == 0.25 for score in scores)
    assert {score["explanation"] for score in scores if score} == {str(joy["pid"])}


def test_a_consumer_that_fails_at_every_event_does_not_hold_up_the_end_of_a_run(house: House) -> None:
    """The run says so once, its events are dead letters, and rules that fail go on being scored as errors."""
    (house.directory / "loud.py").write_text(LOUD)
    (house.directory / "broken.py").write_text(ALWAYS)
    files = ["--rules", str(house.directory / "loud.py"), str(house.directory / "broken.py")]
    began = time.monotonic()

    ended = house.run("--cycles", "8", "--script", house.endless(), *files)

    assert time.monotonic() - began < 45  # 16 events, of which each would take 10.6 s
    assert ended.said.count("consumer loud fails at every event: ValueError: no idea what") == 1
    letters = json.loads(house.conch("dlq", "list", "--json"))["letters"]
    assert {letter["consumer"] for letter in letters} == {"loud"}
    assert len(letters) == 16
    assert [letter["tries"] for letter in letters].count(0) >= 13
    assert ended.said.count("broken could not be scored: ValueError: always") == 1
    assert {parts(row)["broken"]["status"] for row in ended.rows} == {"error"}


def test_a_failing_consumer_is_shown_until_it_recovers(house: House) -> None:
    """Its process is `failing` and says why; once an event is handled it is `up`, and what it printed is in the log."""
    (house.directory / "loud.py").write_text(LOUD)
    live = house.begin("--rules", str(house.directory / "loud.py"), "--script", house.endless(), interval=0.5)
    live.says("consumer loud fails at every event")
    live.until(lambda: house.process("loud")["state"] != "up", "its state")
    failing = house.process("loud")
    shown = house.conch("status")
    (house.directory / "well").touch()
    live.says("consumer loud handles events again")
    live.until(lambda: house.process("loud")["state"] != "failing", "its state")
    recovered = house.process("loud")
    live.signal(signal.SIGTERM)
    assert live.ended() == 0, live.told()

    assert (failing["state"], recovered["state"], recovered["why"]) == ("failing", "up", "")
    assert "loud fails: ValueError: no idea what" in failing["why"]
    assert "loud failing" in shown
    logged = "".join(file.read_text() for file in (house.home / "logs").iterdir())
    assert "about to look at action.taken" in logged
    assert "report_unreadable" not in logged


def test_a_consumer_runs_alone_beside_a_run_without_it(house: House) -> None:
    """`--without needs` leaves that part out; `conch consume needs` scores it from where it stopped, by name."""
    live = house.begin("--without", "needs", "--script", house.endless(), interval=0.1, CONCH_REWARDS__DEADLINE="600")
    live.until(lambda: (house.home / "run.json").exists() and "agent" in str(house.status()), "the run")
    alone = house.start("consume", "needs")
    live.recorded(3)
    alone.signal(signal.SIGINT)
    assert alone.ended() == 0, alone.told()
    live.signal(signal.SIGTERM)
    assert live.ended() == 0

    rows = house.run("--cycles", "1", "--script", house.endless()).rows  # what was open at the end is recorded now
    assert all(parts(row)["needs"]["status"] == "scored" for row in [*live.rows, *rows])
    assert all(row["complete"] for row in house.cycles())


def test_a_consumer_that_the_run_has_is_shared(house: House) -> None:
    """`conch consume` of what runs already takes part in it, in as many processes as are asked for."""
    live = house.begin("--script", house.endless(), interval=0.1)
    live.recorded(1)

    beside = house.start("consume", "needs", "--workers", "2")

    beside.until(lambda: "2 workers share needs; Ctrl-C ends them" in beside.lines, "its word")
    live.recorded(2)
    beside.signal(signal.SIGINT)
    assert beside.ended() == 0, beside.told()
    live.signal(signal.SIGTERM)
    assert live.ended() == 0
    assert all(row["complete"] for row in house.cycles())


def test_the_runs_own_store_is_not_shared(house: House) -> None:
    """Nor is any other that keeps its place by itself: refused, in one sentence that says what to do."""
    live = house.begin("--script", house.endless(), interval=0.1)
    live.recorded(1)

    sentence = house.refused("consume", "store", status=2)

    assert "conch run --without store" in sentence
    live.signal(signal.SIGTERM)
    assert live.ended() == 0


def test_a_name_that_no_consumer_has_is_refused(house: House) -> None:
    """A typo is a usage error that names the nearest there is."""
    assert "reward" in house.refused("run", "--cycles", "1", "--without", "rewrad", status=2)
    assert "reward" in house.refused("consume", "rewrad", status=2)


def test_a_run_without_a_part_ends_when_its_deadline_has_passed(house: House) -> None:
    """What nobody scores is recorded as timeout, the experience as incomplete; with --cycles the run waits for that."""
    live = house.run(
        "--cycles", "2", "--without", "curiosity", "--script", house.endless(), CONCH_REWARDS__DEADLINE="1"
    )

    assert [parts(row)["exploration"]["status"] for row in live.rows] == ["timeout", "timeout"]
    assert all(not row["complete"] and row["coverage"] < 1.0 for row in live.rows)
    later = json.loads(house.conch("cycle", "list", "--json"))["cycles"]
    assert [row["cycle"] for row in later] == [0, 1]
