"""When a process that does not respond is said: a late word is better than a false one."""

from __future__ import annotations

import os
import signal
import subprocess

from conch.processes.silence import LOOK_SECONDS, Unresponsiveness, is_stopped
from conch.processes.supervisor import ChildRecord, Responsiveness


def looks(silence: Unresponsiveness, seconds: int) -> list[int]:
    """The seconds at which it is said, looked at once a second."""
    return [second for second in range(1, seconds + 1) if silence.look(1.0)]


def test_a_silence_is_said_at_its_limit_and_whenever_it_has_doubled() -> None:
    """Not every second: a process may be under a debugger for hours."""
    assert looks(Unresponsiveness(10.0), 100) == [10, 20, 40, 80]


def test_a_pause_of_the_one_that_looks_is_not_the_silence_of_another() -> None:
    """A supervisor that was stopped for an hour says nothing of its children."""
    silence = Unresponsiveness(10.0)

    assert not silence.look(3600.0)

    assert silence.seconds <= 2 * LOOK_SECONDS


def test_a_process_that_is_back_is_as_it_was() -> None:
    """Its state, what stood there of it before, and how long it was away."""
    said: list[str] = []
    watched = ChildRecord("agent", "up", restarts=1, why="SIGKILL", pid=os.getpid())
    response = Responsiveness(watched, 2.0, lambda: None, said.append)

    for _ in range(5):
        response.look(1.0)
    silent = (watched.state, watched.why)
    response.heard(2.0)
    response.heard(2.0)

    assert silent[0] == "silent"
    assert "no response since" in silent[1]
    assert (watched.state, watched.why) == ("up", "SIGKILL")
    assert said == [
        "no response from agent for 4 s: busy, or without a processor",
        "agent responding again after 5 s",
    ]


def test_a_death_in_a_silence_is_the_newer_news() -> None:
    """What is said of the death stays, also when the next one responds."""
    watched = ChildRecord("agent", "up", pid=os.getpid())
    response = Responsiveness(watched, 1.0, lambda: None, lambda _: None)
    for _ in range(2):
        response.look(1.0)

    watched.died("SIGKILL")
    response.heard(1.0)

    assert (watched.state, watched.why) == ("restarting", "SIGKILL")


def test_a_short_silence_of_a_process_that_is_not_stopped_is_not_said() -> None:
    """Below twice the limit the machine may be too busy for it; nor is its return said then."""
    said: list[str] = []
    response = Responsiveness(ChildRecord("agent", "up", pid=os.getpid()), 10.0, lambda: None, said.append)

    for _ in range(19):
        response.look(1.0)
    response.heard(10.0)

    assert said == []


def test_a_stopped_process_is_said_at_the_limit() -> None:
    """With what lets it go on. One that is gone is not stopped."""
    said: list[str] = []
    with subprocess.Popen(["sleep", "600"]) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        response = Responsiveness(ChildRecord("agent", "up", pid=process.pid), 1.0, lambda: None, said.append)

        response.look(1.0)

        process.kill()
    assert said == [f"no response from agent for 1 s: stopped (kill -CONT {process.pid})"]
    assert not is_stopped(process.pid)
    assert not is_stopped(None)
