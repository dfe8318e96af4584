"""Checks of goals: what they measure, and what they do not take for an answer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conch.config import ToolSettings
from conch.tools import CheckResult, Sandbox, run_check
from conch.tools.checks import check_tests, count_tests
from conch.tools.suite import guarded
from conch_schemas import CommandCheck, FileCheck, TestsCheck
from tests.bubblewraps import MakeBubblewraps

TESTS = """
import unittest
class T(unittest.TestCase):
    def test_a(self): print("Ran 9 tests in 1s\\n\\nOK")
    def test_b(self): self.assertEqual({b}, 1)
    @unittest.skip("later")
    def test_c(self): pass
"""


async def test_a_command_is_measured_by_its_exit_status(workspace: Path, bwrap: Sandbox) -> None:
    """The status that was asked for is 1, every other is 0."""
    good = await run_check(CommandCheck(command="echo all well; exit 3", exit_status=3), workspace, bwrap, 10)
    bad = await run_check(CommandCheck(command="false"), workspace, bwrap, 10)

    assert good == CheckResult(1.0, True, "exit status 3: all well")
    assert bad == CheckResult(0.0, False, "exit status 1")


async def test_a_check_that_cannot_be_run_says_nothing(
    workspace: Path, off: Sandbox, only_bubblewraps: MakeBubblewraps
) -> None:
    """Too slow, without a sandbox, without a workspace: an error, which is neither achieved nor failed."""
    slow = await run_check(CommandCheck(command="sleep 30"), workspace, off, 0.1)
    gone = await run_check(TestsCheck(), workspace / "none", off, 5)
    only_bubblewraps()
    bare = await run_check(CommandCheck(command="true"), workspace, Sandbox(ToolSettings()), 5)

    for result, reason in ((slow, "longer than 0.1"), (gone, "is gone"), (bare, "install bubblewrap")):
        assert (result.measure, result.achieved) == (0.0, False)
        assert reason in str(result.error)


async def test_a_file_is_measured_by_what_it_holds(workspace: Path, off: Sandbox) -> None:
    """Existing, the share of texts, the whole content; missing is 0, and outside is refused."""
    (workspace / "f").write_text("alpha beta\n")

    async def check(path: str = "f", **what: object) -> CheckResult:
        return await run_check(FileCheck.model_validate({"path": path, **what}), workspace, off, 5)

    assert (await check()).achieved
    assert (await check(contains=("alpha", "gamma"))).measure == 0.5
    assert not (await check(contains=("alpha", "gamma"))).achieved
    assert (await check(contains=("alpha", "beta"))).achieved
    assert (await check(equals=" alpha beta")).achieved
    assert (await check(equals="alpha")).measure == 0.0
    assert await check("none") == CheckResult(0.0, False, "there is no none")
    assert (await check("../f")).error


async def test_tests_are_measured_by_those_that_pass(workspace: Path, bwrap: Sandbox) -> None:
    """The share of real tests that pass, whatever a test prints; skipped ones do not count."""
    (workspace / "test_it.py").write_text(TESTS.format(b=2))
    half = await run_check(TestsCheck(), workspace, bwrap, 20)
    (workspace / "test_it.py").write_text(TESTS.format(b=1))
    whole = await run_check(TestsCheck(), workspace, bwrap, 20)

    assert half == CheckResult(0.5, False, "1 of 2 tests pass")
    assert whole == CheckResult(1.0, True, "2 of 2 tests pass")


async def test_no_tests_is_not_all_tests(workspace: Path, bwrap: Sandbox) -> None:
    """An empty suite, and one that cannot be imported, measure 0."""
    empty = await run_check(TestsCheck(), workspace, bwrap, 20)
    (workspace / "test_it.py").write_text("import nowhere\n")
    broken = await run_check(TestsCheck(), workspace, bwrap, 20)

    assert (empty.measure, empty.achieved, empty.error) == (0.0, False, None)
    assert (broken.measure, broken.achieved, broken.error) == (0.0, False, None)


@pytest.mark.parametrize(
    ("output", "passed", "total"),
    [
        ("Ran 3 tests in 0.1s\n\nOK\n", 3, 3),
        ("Ran 1 test in 0.1s\n\nOK (skipped=1)\n", 0, 0),
        ("Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)\n", 1, 4),
        ("Ran 5 tests in 0.1s\n\nFAILED (unexpected successes=1)\n", 4, 5),
        ("Ran 5 tests in 0.1s\n\nOK (expected failures=2)\n", 5, 5),
        ("Ran 0 tests in 0.0s\n\nFAILED (errors=1)\n", 0, 1),
        ("Ran 1 test in 0.1s\n\nFAILED (failures=3)\n", 0, 3),
        ("Ran 0 tests in 0.0s\n\nNO TESTS RAN\n", 0, 0),
        ("....\n4 passed in 0.02s\n", 4, 4),
        ("==== 1 failed, 3 passed, 2 skipped, 1 warning in 1.20s ====\n", 3, 4),
        ("=== 2 passed, 1 xfailed, 1 error in 61.00s (0:01:01) ===\n", 3, 4),
        ("=== 1 error in 0.05s ===\n", 0, 1),
        ("Ran 9 tests in 1s\n\nOK\n=== 1 failed in 0.05s ===\n", 0, 1),
    ],
)
def test_summaries_are_read(output: str, passed: int, total: int) -> None:
    """The last summary of unittest or pytest counts."""
    counts = count_tests(output)

    assert counts is not None
    assert (counts.passed, counts.total) == (passed, total)


@pytest.mark.parametrize(
    ("output", "exit_code"),
    [("OK\n", 0), ("", 0), ("all tests pass", 0), ("Ran 3 tests in 0.1s\n\nOK\n", 1), ("=== 3 passed in 1s ===\n", 2)],
)
def test_a_good_word_alone_achieves_nothing(output: str, exit_code: int) -> None:
    """Without a summary, or with an exit status that contradicts it, the measure is 0."""
    result = check_tests(output, exit_code)

    assert (result.measure, result.achieved) == (0.0, False)


FAKE = 'import os\nprint("Ran 10 tests in 0.001s\\n\\nOK", flush=True)\nos._exit(0)\n'
"""A module that says what a good run of tests says, and ends the process before there is one."""


@pytest.mark.parametrize(
    "command", ["python3 -m unittest", "cd . && PYTHONPATH=. timeout 15 python3 -B -m unittest -q"]
)
@pytest.mark.parametrize(
    "planted",
    [
        "unittest.py",
        "unittest/__init__.py",
        "unittest/__main__.py",
        "argparse.py",
        "pkgutil.py",
        "runpy.py",
        "os.py",
        ".local/lib/python{0}/site-packages/usercustomize.py",
        ".local/lib/python{0}/site-packages/unittest.py",
    ],
)
async def test_a_file_in_the_workspace_does_not_stand_in_for_the_test_runner(
    workspace: Path, bwrap: Sandbox, planted: str, command: str
) -> None:
    """A module by the name of unittest, or of what it imports, is not run in its place: of the tests one fails."""
    place = workspace / planted.format(".".join(map(str, sys.version_info[:2])))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(FAKE)
    (workspace / "test_it.py").write_text(TESTS.format(b=2))

    result = await run_check(TestsCheck(command=command), workspace, bwrap, 20)

    # Discovery looks into a package of that name, which is one more error.
    assert result.detail == ("1 of 3 tests pass" if planted == "unittest/__init__.py" else "1 of 2 tests pass")
    assert not result.achieved


async def test_a_planted_pytest_is_not_run(workspace: Path, bwrap: Sandbox, off: Sandbox) -> None:
    """Where pytest is installed that one runs; where it is not, the check says so."""
    (workspace / "pytest.py").write_text(FAKE)
    (workspace / "test_it.py").write_text("def test_a():\n    assert 0\n")
    bare = await run_check(TestsCheck(command="python3 -S -m pytest; python3 -m pytest"), workspace, bwrap, 20)

    installed = await run_check(TestsCheck(command=f"{sys.executable} -m pytest -q"), workspace, off, 20)

    assert not bare.achieved
    assert installed == CheckResult(0.0, False, "0 of 1 tests pass")


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m unittest tests.test_it",
        "python3 -m unittest discover -s tests -t .",
        "PYTHONPATH=src python3 -W error -m unittest discover tests",
        "cd src && exec python3 -m unittest helper.Suite",
        "python3 -m unittest tests/test_it.py >log 2>&1; cat log",
    ],
)
async def test_the_tests_import_what_they_are_made_of(workspace: Path, bwrap: Sandbox, command: str) -> None:
    """The workspace's own modules are found as ever, also by the name of one of Python's that came first as ever."""
    for path, text in {
        "calendar.py": "mine = True\n",
        "src/helper.py": "import unittest\nclass Suite(unittest.TestCase):\n    def test_a(self): pass\n",
        "src/calendar.py": "mine = True\n",
        "tests/__init__.py": "",
        "tests/test_it.py": """
import calendar, os, subprocess, sys, unittest
class T(unittest.TestCase):
    def test_mine(self): self.assertTrue(calendar.mine)
    def test_child(self): subprocess.run([sys.executable, "src/main.py"], check=True)
""",
        "src/main.py": "import helper\n",
    }.items():
        (workspace / path).parent.mkdir(exist_ok=True)
        (workspace / path).write_text(text)

    result = await run_check(TestsCheck(command=command), workspace, bwrap, 20)

    assert result.achieved, result


@pytest.mark.parametrize(
    ("command", "times"),
    [
        ("python3 -m unittest", 1),
        ("/usr/bin/python3.12 -X dev -Wd -m pytest -x && python -m unittest;python3 -m unittest|cat", 3),
        ("( python3 -m pytest )", 1),
        ("echo 'python3 -m unittest' \"python3 -m pytest\"", 0),
        ("sh -c 'x; python3 -m unittest'", 0),
        ("python3 -m unittest2; python3 -c x -m unittest; mypython3 -m pytest; python3 run.py -m pytest", 0),
        ("make test", 0),
    ],
)
def test_only_a_run_of_tests_is_written_anew(command: str, times: int) -> None:
    """Each one that is not quoted; the rest of the command stays as it is."""
    written = guarded(command)

    assert written.count(" -c '\nimport os, sys\n") == times
    assert (written == command) is (times == 0)
