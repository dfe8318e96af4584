"""Why a nats-server ended, in a sentence: never a line of a trace."""

from __future__ import annotations

import signal

import pytest

from conch.bus.server_end import cannot_run, server_end

TRACE = """
goroutine 1 gp=0x3175c8a421e0 m=0 mp=0x1492480 [running, locked to thread]:
runtime.throw({0xc5b90a?, 0x0?})
	runtime/panic.go:1243 +0x48 fp=0x3175c8ab0930 sp=0x3175c8ab0900 pc=0x48ba08
"""
STAMP = "[7] 2026/11/22 21:41:51.593895"


@pytest.mark.parametrize("limit", [None, 600 * 2**20])
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("fatal error: failed to reserve page summary memory\n", "failed to reserve page summary memory"),
        ("runtime: out of memory: cannot allocate 4194304-byte block\nfatal error: out of memory\n", "out of memory"),
    ],
)
def test_want_of_memory_is_said_with_what_to_do(said: str, words: str, limit: int | None) -> None:
    """The limit and how it is raised where there is one; it would end the same way again."""
    end = server_end(2, [], (said + TRACE).splitlines(), limit)

    mend = "600 MiB of address space (ulimit -v): raise" if limit else "give the machine or the container more memory"
    assert f"not enough memory (fatal error: {words})" in end.why
    assert mend in end.why
    assert (end.final, end.crashed) == (True, True)
    assert "runtime." not in end.why


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("runtime: failed to create new OS thread (have 4 already; errno=11)\nfatal error: newosproc\n", "ulimit -u"),
        ("runtime: epollcreate failed with 24\nfatal error: runtime: netpollinit failed\n", "ulimit -n"),
    ],
)
def test_a_limit_that_it_met_is_named(said: str, why: str) -> None:
    """With the command that raises it."""
    end = server_end(2, [], (said + TRACE).splitlines(), None)

    assert why in end.why
    assert end.final


@pytest.mark.parametrize("said", ["panic: runtime error: index out of range [3]", "fatal error: concurrent map writes"])
def test_a_crash_is_told_by_its_first_line(said: str) -> None:
    """It may start the next time."""
    end = server_end(2, [f"{STAMP} [ERR] something else"], (said + "\n" + TRACE).splitlines(), None)

    assert end.why == f"it crashed: {said}"
    assert (end.final, end.crashed) == (False, True)


@pytest.mark.parametrize(
    ("status", "errors", "why"),
    [
        (-signal.SIGKILL, [], "SIGKILL"),
        (-70, [], "signal 70"),
        (2, ["SIGQUIT: quit", "PC=0x4947a1 m=0 sigcode=0", *TRACE.splitlines()], "SIGQUIT"),
        (0, [], "exit status 0"),
        (7, [], "exit status 7"),
    ],
)
def test_a_signal_is_no_reason_why_it_cannot_start(status: int, errors: list[str], why: str) -> None:
    """Whatever it complained of before: it was ended from outside, and may start the next time."""
    end = server_end(status, [f"{STAMP} [ERR] Error cleaning up ports file"] if status <= 0 else [], errors, None)

    assert (end.why, end.final) == (why, False)


@pytest.mark.parametrize(
    ("log", "errors", "why"),
    [
        (
            [f"{STAMP} [INF] Starting", f"{STAMP} [FTL] Can't start JetStream: no space left on device"],
            [],
            "Can't start JetStream: no space left on device",
        ),
        ([f"{STAMP} [ERR] it is so"], [], "it is so"),
        ([], ["nats-server: Parse error on line 8: 'x'"], "nats-server: Parse error on line 8: 'x'"),
        ([], ["2026/11/22 21:41:51 error opening file: l.log"], "error opening file: l.log"),
    ],
)
def test_what_it_says_itself_is_the_reason(log: list[str], errors: list[str], why: str) -> None:
    """Without its number, time and level; it would say it again."""
    end = server_end(1, log, errors, None)

    assert (end.why, end.final) == (why, True)


def test_a_file_that_is_not_the_server_is_named() -> None:
    """A machine without /dev/null has no reason to install the server again."""
    error = FileNotFoundError(2, "No such file or directory", "/dev/null")

    assert cannot_run("/bin/ns", error) == "/bin/ns cannot be run: /dev/null: No such file or directory"
