"""Whether a test program gave the result of a test: by real programs, and by what the others print."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.cycle.effects.commands import program_tested
from conch.cycle.effects.results import gave_results

HEAD = "import unittest\nclass T(unittest.TestCase):\n"
FILES = {
    "notes/words.md": "# words (\n",
    "passes.py": f"{HEAD}    def test_a(self): pass\n",
    "fails.py": f"{HEAD}    def test_a(self): self.fail()\n",
    "raises.py": f"{HEAD}    def test_a(self): raise OSError\n",
    "parts.py": f"{HEAD}    def test_a(self):\n        for i in 1, 2:\n            with self.subTest(): 1 / 0\n",
    "skips.py": f"{HEAD}    @unittest.skip('later')\n    def test_a(self): pass\n",
    "set_up.py": f"{HEAD}    @classmethod\n    def setUpClass(cls): raise OSError\n    def test_a(self): pass\n",
    "tear_down.py": f"{HEAD}    @classmethod\n    def tearDownClass(cls): raise OSError\n    def test_a(self): pass\n",
    "imports.py": "import nowhere_at_all\n",
    "broken.py": "def (\n",
    "fixture.py": "import pytest\n@pytest.fixture\ndef f(): raise OSError\ndef test_a(f): pass\n",
    "good.test.js": "require('node:test')('falls', () => {})\n",
    "bad.test.js": "require('node:test')('falls', () => { throw 1 })\n",
    "imports.test.js": "require('nowhere-at-all')\n",
    "empty.test.js": "",
    "unloaded.mk": "test:\n\tpython -m unittest imports\n",
    "passes.mk": "test:\n\t@true\n",
    "fails.mk": "test:\n\t@false\n",
    "none.mk": "all:\n\ttrue\n",
}
UNITTEST, PYTEST = "python -m unittest", "python -m pytest"


UNLOADED = f"""E
{"=" * 70}
ERROR: nosuch (unittest.loader._FailedTest.nosuch)
{"-" * 70}
ImportError: Failed to import test module: nosuch

Ran 1 test in 0.000s

FAILED (errors=1)
"""
"""What unittest reports of a module that is not there."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with tests that pass, fail, and cannot be loaded."""
    root = tmp_path_factory.mktemp("workspace")
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


def gives_results(workspace: Path, program: str, command: str) -> bool:
    """Whether `command`, run in the workspace, gave the result of a test."""
    assert program_tested(command, [program]) == program
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=workspace, env={"PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}, text=True, timeout=60, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return gave_results(program, command, done.stdout, done.returncode)


@pytest.mark.parametrize(
    "words",
    [
        "notes/words.md",
        "notes/words.md 2>&1 | tail -1",
        "-v notes/words.md 2>&1 | tail -3",
        "notes/words.md > /dev/null 2>&1",
        "notes/words.md > /dev/null 2>&1 || true",
        "notes/words.md; true",
        "imports broken nowhere passes.T.test_none",
        "discover -s nowhere",
        "discover -s notes",
        "skips",
        "set_up",
    ],
)
def test_a_load_that_failed_is_no_result_of_unittest(workspace: Path, words: str) -> None:
    """However the output is cut or hidden; a test that was skipped, or whose class could not be set up, did not run."""
    assert not gives_results(workspace, UNITTEST, f"python -m unittest {words}")


@pytest.mark.parametrize(
    "words",
    [
        "passes",
        "-q passes > /dev/null 2>&1",
        "fails 2>&1 | tail -3",
        "passes 2>&1 | tail -1",
        "passes notes/words.md",
        "raises notes/words.md",
        "fails notes/words.md imports 2>&1 | tail -1",
        "parts",
        "tear_down",
    ],
)
def test_a_result_beside_a_failed_load_is_one_of_unittest(workspace: Path, words: str) -> None:
    """A suite with real results and a test that cannot be loaded is a run."""
    assert gives_results(workspace, UNITTEST, f"python -m unittest {words}")


@pytest.mark.parametrize(
    ("words", "results"),
    [
        ("notes/words.md", False),
        ("imports.py -q | tail -1", False),
        ("passes.py imports.py --continue-on-collection-errors", True),
        ("fixture.py --tb=no -q", True),
    ],
)
def test_pytest_gave_a_result_or_none(workspace: Path, words: str, results: bool) -> None:
    """Nothing collected and a failed collection are none; a fixture that fails is an error of a test."""
    assert (
        gives_results(workspace, PYTEST, f"python -m pytest -p no:cacheprovider -c /dev/null --rootdir=. {words}")
        == results
    )


@pytest.mark.parametrize(
    ("file", "results"),
    [("unloaded.mk", False), ("none.mk", False), ("nowhere.mk", False), ("passes.mk", True), ("fails.mk", True)],
)
def test_make_gave_a_result_or_none(workspace: Path, file: str, results: bool) -> None:
    """A target without a word is taken to have tested; one that is not there, or loads no test, is not."""
    assert gives_results(workspace, "make test", f"make --makefile={file} test") == results


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node: install Node.js 20 or later")
@pytest.mark.parametrize(
    ("words", "results"),
    [
        ("notes/words.md", False),
        ("imports.test.js", False),
        ("imports.test.js | tail -9", False),
        ("--test-reporter=spec imports.test.js", False),
        ("empty.test.js", False),
        ("nowhere.js", False),
        ("good.test.js imports.test.js", True),
        ("--test-reporter=spec bad.test.js imports.test.js", True),
    ],
)
def test_node_gave_a_result_or_none(workspace: Path, words: str, results: bool) -> None:
    """Node counts a file as a test: a file that could not be loaded, or has no test, is no result."""
    assert gives_results(workspace, "node --test", f"node --test {words}") == results


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("pytest", "collected 3 items / 3 deselected / 0 selected\n\n=== 3 deselected in 0.01s ==="),
        ("pytest", "a.py::test\n\n1 test collected in 0.01s"),
        ("pytest", "collected 0 items\n\n==== no tests ran in 0.01s ===="),
        ("pytest", "ERROR: file or directory not found: nowhere.py\n\nno tests ran in 0.00s"),
        ("pytest", "collected 1 item\n\ntest_a.py s      [100%]\n\n==== 1 skipped in 0.02s ===="),
        ("pytest", "ImportError while loading conftest '/w/conftest.py'."),
        ("cargo test", "error: could not find `Cargo.toml` in `/w` or any parent directory"),
        ("cargo test", "error[E0308]: mismatched types\nerror: could not compile `x` (lib test)"),
        ("cargo test", "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"),
        ("go test", "# x [x.test]\n./a_test.go:5:2: undefined: y\nFAIL\tx [build failed]\nFAIL"),
        ("go test", "?   \tx\t[no test files]"),
        ("go test", "testing: warning: no tests to run\nPASS\nok  \tx\t0.002s [no tests to run]"),
        ("go test", "go: cannot find main module, but found .git/config in /w"),
        ("npm test", 'npm error Missing script: "test"'),
        ("npm test", "> echo \"Error: no test specified\" && exit 1\n\nError: no test specified"),
        ("npm test", "npm ERR! code ENOENT\nnpm ERR! syscall open\nnpm ERR! path /w/package.json"),
        ("npm test", "  ● Test suite failed to run\nTest Suites: 1 failed, 1 total\nTests:       0 total"),
        ("npx vitest", " Test Files  1 failed (1)\n      Tests  no tests"),
        ("npm test", "No tests found, exiting with code 1"),
        ("make check", "a.c:3:12: error: expected ';' before '}' token\nmake: *** [Makefile:2: a] Error 1"),
        ("tox", "ERROR: No tox configuration found"),
        ("pytest", "/usr/bin/python3: No module named pytest"),
        ("mvn test", "[ERROR] COMPILATION ERROR :\n[INFO] BUILD FAILURE"),
        ("rspec", "0 examples, 0 failures, 1 error occurred outside of examples"),
        ("python -m unittest", f"ERROR: no tide\n{UNLOADED}"),
        ("python -m unittest", f"ERROR: file or directory not found: nosuch.py\n{UNLOADED}"),
    ],
)  # fmt: skip
def test_a_failed_build_or_an_empty_suite_is_no_result(program: str, output: str) -> None:
    """By the words of the usual programs, whichever the exit status."""
    assert [gave_results(program, program, output, status) for status in (0, 1, 2)] == [False] * 3


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("pytest", "collected 4 items / 3 deselected / 1 selected\n\n=== 1 failed, 3 deselected in 0.01s ==="),
        ("pytest", ".F                                     [100%]\n=== FAILURES ==="),
        ("pytest", "tests/test_tide.py ..F                 [100%]"),
        ("pytest", "tests/test_tide.py::test_falls PASSED  [100%]"),
        ("pytest", "FAILED tests/test_tide.py::test_falls - assert 1 == 2"),
        ("cargo test", "running 0 tests\n\nrunning 2 tests\ntest a ... ok\ntest b ... FAILED"),
        ("go test", "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tx\t0.002s\nFAIL\ty [build failed]"),
        ("go test", "ok  \tx\t(cached)\n?   \ty\t[no test files]"),
        ("npm test", "Test Suites: 1 failed, 1 passed, 2 total\nTests:       3 passed, 3 total"),
        ("npm test", " Test Files  1 failed | 1 passed (2)\n      Tests  3 passed (3)"),
        ("npm test", "  2 passing (5ms)\n  1 failing"),
        ("make test", "100% tests passed, 0 tests failed out of 3"),
        ("make test", "ok: the tide is right"),
        ("./check.sh", ""),
        ("mvn test", "[INFO] Tests run: 5, Failures: 1, Errors: 0, Skipped: 0"),
    ],
)  # fmt: skip
def test_a_test_that_passed_or_failed_is_a_result(program: str, output: str) -> None:
    """Also beside what could not be loaded; a program of one's own may report in any words."""
    assert [gave_results(program, program, output, status) for status in (0, 1, 2)] == [True] * 3


@pytest.mark.parametrize(("command", "status", "results"), [
    ("pytest -q > out", 0, True), ("pytest -q > out", 1, False), ("pytest -q > out; true", 0, False),
    ("cd tests && pytest > out", 0, True), ("pytest > out | cat", 0, False),
])  # fmt: skip
def test_of_a_silent_run_the_programs_own_status_tells(command: str, status: int, results: bool) -> None:
    """pytest ends with 0 only where a test passed; the status of another program in the line says nothing of it."""
    assert gave_results("pytest", command, "", status) == results


@given(output=st.text(st.sampled_from("Ran 1testsOKFAILED(errs=)\n:#ℹ✖.[]%\t"), max_size=200))
def test_no_output_is_too_odd(output: str) -> None:
    """Any text is or is no report of a result."""
    gave_results("pytest", "pytest", output, 1)


@pytest.mark.parametrize(
    "line",
    [
        "a" * 65_536,
        "1 " * 32_768,
        "x.py" + "." * 65_000,
        "\n" * 65_536,
        "ok 1 - " * 9_000,
        "test_a (t.T) ... " * 4_000,
        "1 skipped, " * 6_000,
        "1 error, " * 7_000,
        "ok " * 20_000,
        "FAIL\t" * 13_000,
    ],
)
def test_a_long_output_is_read_quickly(line: str) -> None:
    """An output of the largest size does not hold up the agent."""
    began = time.process_time()
    gave_results("pytest", "pytest", line, 1)

    assert time.process_time() - began < 2.0
