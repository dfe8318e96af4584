"""Judges in a real run, at an endpoint of the tests' own."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.judge.standin import HANGS, Endpoint, answer, serving

if TYPE_CHECKING:
    from tests.run.conftest import House


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A well endpoint on a free port, which gives every act 0.5."""
    with serving() as server:
        yield server


def furnish(house: Any, endpoint: Endpoint, others: Any = None, **judge: Any) -> None:
    """A home whose conch.yaml names the judge `tone`, weight 0.2, its rubric beside it; and `others`."""
    house.home.mkdir(parents=True, exist_ok=True)
    own = {"rubric": "tone.md", "weight": 0.2, "base_url": endpoint.url, "tries": 1, **judge}
    (house.home / "tone.md").write_text("Is the agent calm?\n")
    (house.home / "conch.yaml").write_text(
        json.dumps({"rewards": {"judges": {"tone": own, **(others or {})}}, "goals": []})
    )


def shown(house: Any, cycle: int) -> dict[str, Any]:
    """A cycle's experience, its scores by component."""
    found = json.loads(house.conch("cycle", "show", str(cycle), "--json"))["cycle"]
    return {**found, "scores": {score["component"]: score for score in found["scores"]}}


def test_a_judges_score_completes_the_experience(house: House, endpoint: Endpoint) -> None:
    """It is a line of the breakdown like any other; a judge with a dead endpoint costs its own score alone."""
    dead = {"rubric": "tone.md", "weight": 0.1, "base_url": "http://127.0.0.1:9/v1", "tries": 1}
    furnish(house, endpoint, {"dead": dead})
    endpoint.usual = answer(0.9, "It rests calmly.")

    live = house.run("--cycles", "2", "--script", house.endless())

    assert [row["complete"] for row in live.rows] == [True, True]
    said = live.said.splitlines()
    assert f"judge tone (asks for weight 0.2) by default at {endpoint.url}" in said
    assert "judge dead (asks for weight 0.1) by default at http://127.0.0.1:9/v1" in said
    [away] = [line for line in said if line.startswith("! judge")]
    assert away.startswith("! judge dead: http://127.0.0.1:9/v1/chat/completions cannot be reached: ")
    found = shown(house, 1)
    tone, dead = found["scores"]["tone"], found["scores"]["dead"]
    assert (tone["value"], tone["weight"], tone["scorer"]) == (0.9, 0.2, "judge-tone")
    assert tone["explanation"] == "It rests calmly."
    assert (dead["status"], dead["value"]) == ("error", None)
    assert "127.0.0.1:9" in dead["explanation"]
    assert [line["amount"] for line in found["breakdown"] if line["step"] == "part:tone"] == [pytest.approx(0.18)]
    assert sum(line["amount"] for line in found["breakdown"]) == pytest.approx(found["total"])
    assert found["coverage"] < 1.0
    assert (found["scores"]["format"]["value"], found["scores"]["execution"]["value"]) == (0.5, 0.2)
    assert len(endpoint.requests) == 2
    assert "Is the agent calm?" in endpoint.requests[0]["messages"][0]["content"]
    assert "Your thought:" in endpoint.requests[0]["messages"][1]["content"]
    listed = {one["name"] for one in json.loads(house.conch("consumer", "list", "--json"))["consumers"]}
    assert {"judge-tone", "judge-dead"} <= listed


def test_a_judge_that_never_answers_is_late_and_holds_up_nobody(house: House, endpoint: Endpoint) -> None:
    """Its part is timeout at its own deadline; the agent and the rules go on meanwhile. An answer after that counts."""
    furnish(house, endpoint, deadline=1.0, timeout=60.0, concurrency=1)
    endpoint.plan = [HANGS]

    live = house.begin("--script", house.endless(), interval=0.05)
    live.recorded(5)
    late = [row for row in live.rows if not row["complete"]]
    assert late
    assert {row["coverage"] < 1.0 for row in late} == {True}
    first = shown(house, 0)
    assert first["scores"]["tone"]["status"] == "timeout"
    assert first["scores"]["format"]["value"] == 0.5
    assert endpoint.at_once == 1
    endpoint.released.set()
    live.until(lambda: len(endpoint.requests) > 5, "the other questions")
    live.signal(signal.SIGTERM)
    assert live.ended() == 0

    then = shown(house, 0)
    assert (then["scores"]["tone"]["status"], then["complete"]) == ("scored", True)
    assert then["revision"] > first["revision"]


def test_a_judge_runs_apart_from_the_run(house: House, endpoint: Endpoint) -> None:
    """`--without judge-tone`, and `conch consume judge-tone` beside it: the same scores."""
    furnish(house, endpoint, deadline=60.0)
    live = house.begin("--without", "judge-tone", "--script", house.endless(), interval=0.05)
    live.until(
        lambda: (house.home / "run.json").exists() and "judge-tone" not in house.status()["consumers"], "the run"
    )

    apart = house.start("consume", "judge-tone")
    live.recorded(2)
    apart.signal(signal.SIGTERM)
    assert apart.ended() == 0
    live.signal(signal.SIGTERM)
    assert live.ended() == 0

    assert shown(house, 0)["scores"]["tone"]["value"] == 0.5


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "tone.md cannot be read (No such file or directory)"),
        (b"", "tone.md is empty"),
        (b"\x00\x01", "tone.md is no text in UTF-8"),
    ],
)
def test_a_rubric_that_is_none_ends_a_run_before_it_begins(
    house: House, endpoint: Endpoint, content: bytes | None, sentence: str
) -> None:
    """Exit code 2 and one sentence, which names setting and file; so does the judge alone."""
    furnish(house, endpoint)
    file = house.home / "tone.md"
    file.unlink() if content is None else file.write_bytes(content)

    said = [house.refused(*command, status=2) for command in (["run", "--cycles", "1"], ["consume", "judge-tone"])]

    assert all(one.startswith("rewards.judges.tone.rubric: ") and sentence in one for one in said)


def test_each_judge_is_a_user_of_the_bus(house: House, endpoint: Endpoint) -> None:
    """It may publish scores and keep its own place, no more."""
    house.conch("init")
    furnish(house, endpoint)

    users = {one["name"]: one for one in json.loads(house.conch("bus", "permissions", "--json"))["users"]}

    publish = users["judge-tone"]["publish"]
    assert "conch.v1.*.reward.assigned" in publish
    assert not [subject for subject in publish if "action" in subject or "weights" in subject]
    assert "judge-tone" in users["agent"]["for"]
