"""Talking with a running agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.run.conftest import House


def test_a_person_who_waits_is_given_the_answer(house: House) -> None:
    """`tell --wait` prints what the agent says to this very message; without an answer in time it says so, and ends
    with status 1."""
    house.begin(interval=0.1).recorded(1)

    answer = house.conch("tell", "What did you find?", "--wait", "30")
    house.conch("pause")
    told = json.loads(house.conch("tell", "And now?", "--wait", "0.1", "--json", status=1))

    assert "language model" in answer
    assert told["running"] is True
    assert told["answer"] is None


def talk(house: House, said: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`conch chat` with these lines as its input, to its end."""
    return subprocess.run(
        [*house.command, "chat", "--home", str(house.home), *arguments],
        input=said,
        env=house.environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_conversation_with_a_run_has_rewards_marks_and_ratings(house: House) -> None:
    """Two turns of a session and a rating, through a pipe: each answer is scored and marked, and the chain holds."""
    house.begin(interval=0.1).recorded(1)

    done = talk(house, "What did you find?\nAnd now?\n/correct I found a file.\n", "--session", "s1", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]

    steps = [line["step"] for line in lines if line["step"] not in ("works", "draft", "tool")]
    assert done.returncode == 0, done.stderr
    assert sorted(steps) == sorted([*("message", "answer", "reward", "mark") * 2, "rated"])
    assert {line["session"] for line in lines} == {"s1"}
    assert json.loads(house.conch("mark", "verify", "--json"))["ok"] is True


def test_an_agent_that_is_killed_in_a_turn_answers_once(house: House) -> None:
    """kill -9 of the agent's process while a message waits: the conversation goes on, and one answer comes."""
    run = house.begin(interval=0.3)
    run.recorded(1)
    chat = subprocess.Popen(
        [*house.command, "chat", "--home", str(house.home), "--session", "s1", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=house.environment,
        text=True,
    )
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write("What did you find?\n")
    chat.stdin.close()
    first = json.loads(chat.stdout.readline())
    os.kill(house.process("agent")["pid"], signal.SIGKILL)
    lines = [json.loads(line) for line in chat.stdout]
    assert chat.wait(60) == 0
    chat.stdout.close()
    run.recorded(3)
    run.signal(signal.SIGTERM)
    run.ended()

    sent = house.conch("bus", "tail", "--after", "0", "--kind", "message.sent", "--json").splitlines()
    assert len(sent) == 1
    assert first["step"] == "message"
    assert [line["step"] for line in lines].count("answer") == 1


def test_without_a_run_a_conversation_says_what_to_do(house: House) -> None:
    """One sentence and exit code 3."""
    house.live_through(1)

    done = talk(house, "hello\n")

    assert (done.returncode, done.stdout) == (3, "")
    assert "no run is in progress" in done.stderr
    assert "conch run starts one" in done.stderr
