"""The mind at a real HTTP endpoint: one that is absent, slow, failing, cut off, and well again."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.run.conftest import CONCH
from tests.run.servers import REPLY, Endpoint

if TYPE_CHECKING:
    from tests.run.conftest import House


LINE = re.compile(r"echo waits for its mind: think, \d+ s, about \d+ tokens so far")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A well endpoint on a free port."""
    with Endpoint().serving() as server:
        yield server


@pytest.mark.parametrize("fault", ["429", "500", "cut"])
def test_a_failing_endpoint_costs_no_cycle(house: House, endpoint: Endpoint, fault: str) -> None:
    """Too many requests, its own error, a reply cut off: waited for; numbers have no gap, tokens are counted."""
    endpoint.plan = ["well", "well", fault, fault, "well", fault]

    rows = house.run("--cycles", "3", **endpoint.environment).rows

    assert [row["cycle"] for row in rows] == [0, 1, 2]
    assert {row["raw"] for row in rows} == {REPLY}
    assert endpoint.served.count(fault) == 3
    assert endpoint.served.count("well") == 6
    shown = json.loads(house.conch("cycle", "show", "1", "--json"))["cycle"]
    assert shown["usage"] == {"input_tokens": 200, "output_tokens": 20}


def test_a_run_keeps_in_its_home_what_the_endpoint_takes(house: House, endpoint: Endpoint) -> None:
    """The first run asks one question more than the second, whose decision is held at once."""
    automatic = {"CONCH_MIND__CONSTRAIN": "auto", "CONCH_MIND__FREE_SHARE": "0"}
    served = []
    for _ in range(2):
        endpoint.served.clear()
        house.run("--cycles", "1", **endpoint.environment | automatic)
        served.append(len(endpoint.served))

    assert served == [3, 2]
    [file] = (house.home / "endpoints").iterdir()
    assert json.loads(file.read_text())["form"] == "grammar"
    shown = json.loads(house.conch("cycle", "show", "1", "--json"))["cycle"]
    assert shown["decoding"]["constraint"] == "grammar"


def test_an_absent_endpoint_ends_a_run_of_some_cycles(house: House) -> None:
    """Nobody waits for a mind that never spoke: exit code 3, in a sentence with its address; no cycle was used up."""
    dead = {"CONCH_MIND__BASE_URL": "http://127.0.0.1:9/v1", "CONCH_MIND__TIMEOUT": "0.5"}

    sentence = house.refused("run", "--mind", "openai", "--cycles", "2", status=3, **dead)

    assert "127.0.0.1:9" in sentence
    assert "cannot be reached" in sentence
    assert [row["cycle"] for row in house.run("--cycles", "1", "--script", house.endless()).rows] == [0]


def test_a_run_says_once_why_it_failed(house: House) -> None:
    """The reason of its only agent is that of the run."""
    dead = {"CONCH_MIND__BASE_URL": "http://127.0.0.1:9/v1", "CONCH_MIND__TIMEOUT": "0.5"}
    live = house.start("run", "--mind", "openai", "--cycles", "2", **dead)

    assert live.ended() == 3, live.told()

    assert live.said.count("cannot be reached") == 1, live.said


def test_a_refused_request_ends_any_run_at_its_start(house: House, endpoint: Endpoint) -> None:
    """A wrong key or model does not pass by waiting: exit code 3, with what to check."""
    endpoint.plan = ["401"] * 10

    sentence = house.refused("run", status=3, **endpoint.environment)

    assert "mind.api_key" in sentence


def test_a_page_of_html_ends_any_run_at_its_start(house: House, endpoint: Endpoint) -> None:
    """Another server answers there: exit code 3 after one question, with what came and what to check."""
    endpoint.plan = ["page"] * 10

    sentence = house.refused("run", "--cycles", "2", status=3, **endpoint.environment)

    assert "answered 200 with text/html" in sentence
    assert "Welcome to our router" in sentence
    assert "mind.base_url" in sentence
    assert endpoint.served == ["page"]


def test_an_endpoint_that_hangs_is_said_while_it_hangs(house: House, endpoint: Endpoint) -> None:
    """After some seconds, long before the reply's time is up."""
    endpoint.plan = ["hangs"]

    live = house.begin("--cycles", "1", **endpoint.environment | {"CONCH_MIND__TIMEOUT": "120"})
    live.says("echo: mind: no reply for 2 s so far")
    endpoint.released.set()

    assert live.ended(30) == 0


def test_without_a_set_end_a_run_waits_for_its_mind(house: House, endpoint: Endpoint) -> None:
    """It says what it waits for, and goes on by itself when the endpoint is well; waiting it can be stopped."""
    endpoint.plan = ["500"] * 60
    environment = endpoint.environment | {"CONCH_MIND__TIMEOUT": "0.3"}

    live = house.begin(interval=0.05, **environment)
    live.says("echo: mind: .*answered 500.*trying again in")
    endpoint.plan = []
    live.recorded(2)
    endpoint.plan = ["500"] * 1000
    seen = live.said.count("echo: mind:")
    live.until(lambda: live.said.count("echo: mind:") > seen, "the waiting")
    live.signal(signal.SIGTERM)

    assert live.ended(20) == 0
    rows = house.cycles()
    assert [row["cycle"] for row in rows] == list(range(len(rows)))
    endpoint.plan = []
    more = house.run("--cycles", "2", **endpoint.environment).rows
    assert [row["cycle"] for row in house.cycles()] == list(range(more[-1]["cycle"] + 1))


def test_an_hours_tokens_pause_the_agent(house: House, endpoint: Endpoint) -> None:
    """At `mind.max_tokens_per_hour` it pauses, and says until when."""
    live = house.begin(CONCH_MIND__MAX_TOKENS_PER_HOUR="500", **endpoint.environment)

    live.says("echo: budget: .* of 500 tokens in the last hour .*, 50 kept for people's messages: paused until")
    live.signal(signal.SIGTERM)

    assert live.ended() == 0
    assert 2 <= len(house.cycles()) <= 3


def test_at_the_ceiling_of_its_budget_the_run_waits_and_says_so(house: House) -> None:
    """Terminal and status name the limit and the time; a kill gives no new hour, a higher limit goes on."""
    limit, script = {"CONCH_BUDGET__ACTS_PER_HOUR": "2"}, house.endless('TOOL: notes(operation="recall", text="tide")')
    live = house.begin("--script", script, **limit)
    live.says("echo: budget: 2 of 2 acts in the last hour .budget.acts_per_hour.: paused until 20")

    status = json.loads(house.conch("status", "--json"))["agent"]
    assert (status["state"], status["budget"]) == ("budget", [{"budget": "acts_per_hour", "limit": 2.0, "used": 2.0}])
    assert "budget       acts_per_hour 2 of 2" in house.conch("status")
    live.signal(signal.SIGKILL, group=True)
    live.ended(20)

    again = house.begin("--script", script, **limit)
    again.says("echo: budget: 2 of 2 acts in the last hour")
    assert len(house.cycles()) == 2
    (house.home / "conch.yaml").write_text("budget: {acts_per_hour: 50}\n")
    house.conch("resume")
    again.until(lambda: len(house.cycles()) > 3, "acts beyond the limit of the start")
    again.signal(signal.SIGTERM)
    assert again.ended() == 0


def test_a_fallback_acts_while_the_endpoint_is_down(house: House, endpoint: Endpoint) -> None:
    """No cycle waits for the first mind; the person is told once, and each act says who decided under which policy."""
    endpoint.plan = ["well", "well", "401"]
    environment = endpoint.environment | {"CONCH_MIND__FALLBACKS": "[{kind: reflex}]"}

    done = house.run("--cycles", "3", **environment)

    engines = []
    for cycle in range(3):
        shown = json.loads(house.conch("cycle", "show", str(cycle), "--json"))["cycle"]
        engines.append((shown["decoding"]["engine"], shown["policy"]))
    assert [engine for engine, _ in engines] == ["openai", "reflex", "reflex"]
    assert len({policy for _, policy in engines}) == 2
    assert done.said.count("reflex (reflex-linucb-2) replies until the first mind works again") == 1
    assert endpoint.served == ["well", "well", "401"]


def test_the_cost_of_cycles_is_shown_and_what_is_unknown_is_no_zero(house: House, endpoint: Endpoint) -> None:
    """By the tokens that the endpoint counted; of cycles before there were prices it is unknown, and counted so."""
    house.run("--cycles", "1", **endpoint.environment)
    assert "cost       unknown of 1 cycles" in house.conch("status")
    assert "200 in, 20 out: cost unknown" in house.conch("cycle", "show", "0")
    prices = {"CONCH_MIND__PRICE": "{input: 50, output: 1000}", "CONCH_MIND__CURRENCY": "EUR"}

    house.run("--cycles", "2", **endpoint.environment | prices)

    assert "200 in, 20 out: 0.03 EUR" in house.conch("cycle", "show", "1")
    assert "cost       0.06 EUR in 2 cycles, unknown of 1 more" in house.conch("status")
    status = json.loads(house.conch("status", "--json"))
    assert status["cost"] == {"amounts": {"EUR": pytest.approx(0.06)}, "known": 2, "unknown": 1}


def test_a_terminal_shows_a_renewed_line_while_a_mind_is_waited_for(house: House, endpoint: Endpoint) -> None:
    """Step, seconds and tokens so far in one line that is erased before the cycle's; nothing of it stays."""
    endpoint.plan = ["drips"]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = house.environment | endpoint.environment | {"TERM": "xterm", "CONCH_MIND__TIMEOUT": "60"}
    process = subprocess.Popen(
        [str(CONCH), "run", "--cycles", "1", "--without", "dashboard", "--home", str(house.home)],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    text = ""
    with contextlib.suppress(OSError):  # so a terminal's end is read on Linux
        while piece := os.read(ours, 65536):
            text += piece.decode(errors="replace")
            if len(set(LINE.findall(text))) > 1:
                endpoint.released.set()
    os.close(ours)

    assert process.wait(timeout=30) == 0, text
    assert "no reply for" not in text
    for part in text.split("echo waits for its mind")[1:]:
        assert "\r\x1b[2K" in part.split("\n", 1)[0], text


SLEEPY = {"CONCH_CYCLE__SLEEP__FIRST": "10", "CONCH_CYCLE__SLEEP__AFTER": "1"}


def test_a_run_that_is_killed_asleep_is_awake_after_its_start(house: House, endpoint: Endpoint) -> None:
    """Terminal and status say that it sleeps; each sleep and each wake is there once, and no cycle is missing."""
    live = house.begin(interval=0.05, **SLEEPY, **endpoint.environment)
    live.says("echo: asleep: until 20.*UTC: .*a message, a goal or a changed file wakes it")
    assert json.loads(house.conch("status", "--json"))["agent"]["state"] == "asleep"
    live.signal(signal.SIGKILL, group=True)
    live.ended(20)

    again = house.begin(interval=0.05, **SLEEPY, **endpoint.environment)
    again.says("echo: asleep: until 20")
    told = house.conch("tell", "are you there?")
    assert told == "told, and it wakes for it (--wait 30 waits for the answer)"
    again.signal(signal.SIGTERM)
    assert again.ended(20) == 0

    events = [json.loads(line)["event"] for line in house.conch("bus", "tail", "--after", "0", "--json").splitlines()]
    slept = [event["data"]["number"] for event in events if event["type"] == "conch.v1.agent.slept"]
    woken = [event["data"]["by"] for event in events if event["type"] == "conch.v1.agent.woke"]
    assert slept == list(range(len(slept)))
    assert woken[:2] == ["start", "message"]
    rows = [row["cycle"] for row in house.cycles()]
    assert rows == list(range(len(rows)))
