"""Runs the checks of goals against the workspace: commands, files, test suites."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from conch.errors import ToolError
from conch.tools.isolation.sandbox import ProcessResult, Sandbox
from conch.tools.suite import guarded
from conch.tools.workspace import MissingError, Workspace
from conch_schemas import Check, CommandCheck, FileCheck

MAX_DETAIL = 200
"""Most characters of a detail."""

_ENVIRONMENT = {"PYTHONNOUSERSITE": "1"}
"""The workspace is the program's home directory: packages in its .local must not count as installed."""
_UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
_UNITTEST_END = re.compile(r"^(OK|FAILED|NO TESTS RAN)(?: \((.*)\))?[ \t]*$", re.MULTILINE)
_PYTEST_END = re.compile(r"^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+) in [0-9.]+s(?: \([0-9:]+\))?(?: =+)?[ \t]*$", re.MULTILINE)
_PYTEST_COUNT = re.compile(r"(\d+) ([a-z]+)")
_UNITTEST_COUNT = re.compile(r"([a-z ]+)=(\d+)")


@dataclass(frozen=True)
class CheckResult:
    """The result of a check."""

    measure: float
    """0..1; 0 where it could not be run."""
    achieved: bool
    detail: str
    """One line."""
    error: str | None = None
    """Why it could not be run, in one sentence: then the goal's state is not known."""


@dataclass(frozen=True)
class TestCounts:
    """The counts in a test suite's summary."""

    __test__ = False

    passed: int
    total: int
    """All tests except skipped ones."""


async def run_check(check: Check, workspace: Path, sandbox: Sandbox, timeout: float) -> CheckResult:
    """Run a goal's check against the workspace. Raises only if cancelled, which kills its program.

    The test runner is the installed one; the tests and their imports come from the workspace. A check that is refused,
    that takes longer than `timeout` seconds or that reaches a limit has an error.
    """
    if isinstance(check, FileCheck):
        return await asyncio.to_thread(_check_file, check, workspace, sandbox.settings.file_mib * 2**20)
    argv = ["/bin/sh", "-c", guarded(check.command)]
    done = await sandbox.run(argv, workspace=workspace, timeout=timeout, env=_ENVIRONMENT)
    if done.exit_code is None:
        return CheckResult(0.0, False, "", error=done.error or "the check could not be run")
    return _check_command(check, done) if isinstance(check, CommandCheck) else check_tests(done.output, done.exit_code)


def check_tests(output: str, exit_code: int) -> CheckResult:
    """The result of a test suite from its output. At least one test, all passed, and exit status 0 is achieved.

    A suite with failed imports, or one that fails though every test passed, measures 0.
    """
    counts = count_tests(output)
    if counts is None:
        return CheckResult(0.0, False, f"no summary of unittest or pytest (exit status {exit_code})")
    said = f"{counts.passed} of {counts.total} tests pass"
    if counts.total == 0 or (counts.passed == counts.total and exit_code):
        return CheckResult(0.0, False, f"{said}, exit status {exit_code}")
    return CheckResult(counts.passed / counts.total, counts.passed == counts.total, said)


def count_tests(output: str) -> TestCounts | None:
    """The counts of the last summary of unittest or pytest in `output`; None where there is none."""
    last_unittest = _last(_UNITTEST_END, output)
    last_pytest = _last(_PYTEST_END, output)
    if last_pytest and (not last_unittest or last_pytest.start() > last_unittest.start()):
        return _pytest_counts({word: int(count) for count, word in _PYTEST_COUNT.findall(last_pytest[1])})
    ran = _last(_UNITTEST_RAN, output[: last_unittest.start()]) if last_unittest else None
    if not last_unittest or not ran:
        return None
    said = {word.strip(): int(count) for word, count in _UNITTEST_COUNT.findall(last_unittest[2] or "")}
    return _unittest_counts(int(ran[1]), said)


def _unittest_counts(ran: int, said: dict[str, int]) -> TestCounts:
    # A module or class that fails before its tests, and each subtest, is an error beside the tests that ran.
    bad = sum(said.get(word, 0) for word in ("failures", "errors", "unexpected successes"))
    total = max(ran - said.get("skipped", 0), bad)
    return TestCounts(total - bad, total)


def _pytest_counts(said: dict[str, int]) -> TestCounts:
    passed = said.get("passed", 0) + said.get("xfailed", 0)
    bad = sum(said.get(word, 0) for word in ("failed", "error", "errors"))
    return TestCounts(passed, passed + bad)


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)


def _check_command(check: CommandCheck, done: ProcessResult) -> CheckResult:
    achieved = done.exit_code == check.exit_status
    last = done.output.strip().rsplit("\n", 1)[-1][:MAX_DETAIL]
    detail = f"exit status {done.exit_code}" + (f": {last}" if last else "")
    return CheckResult(float(achieved), achieved, detail)


def _check_file(check: FileCheck, workspace: Path, limit: int) -> CheckResult:
    try:
        text = Workspace(workspace, limit).read(check.path)
    except MissingError as missing:
        return CheckResult(0.0, False, str(missing))
    except ToolError as error:
        return CheckResult(0.0, False, "", error=str(error))
    held = [part in text for part in check.contains]
    held += [text.strip() == check.equals.strip()] if check.equals is not None else []
    if not held:
        return CheckResult(1.0, True, f"{check.path} exists")
    return CheckResult(sum(held) / len(held), all(held), f"{sum(held)} of {len(held)} conditions on {check.path} hold")
