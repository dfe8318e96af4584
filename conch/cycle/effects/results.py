"""Tells whether a test program gave the result of a test, by its output and its exit status. Pure."""

from __future__ import annotations

import re

from conch.cycle.effects.commands import program_words, sole_command

_TEST_RESULTS = re.compile(
    r"^(?!.*\bTest (?:Suites|Files)\b).*\b[1-9]\d* (?:passed|failed|xfailed|xpassed|passing|failing)\b"  # of many
    r"|^\S+\.py [A-Za-z]*[.FxX]|^[a-zA-Z]*[.FxX][.\w]* *\[ *\d+%\]|::\S+.* (?:PASSED|FAILED|XFAIL|XPASS)\b"  # pytest
    r"|^FAILED \(.*\bfailures=[1-9]|^(?:FAILED|ERROR) \S+::\S|^_* *ERROR at (?:setup|teardown) of "
    r"|^test \S+ \.\.\. (?:ok|FAILED)|^running [1-9]\d* tests?$"  # cargo
    r"|^ *--- (?:PASS|FAIL): |^ok[ \t]+\S+[ \t]+(?:\(cached\)|[\d.]+s)(?!.*no tests to run)|^FAIL\t\S+\t[\d.]+s$"  # go
    r"|^[ \t]+(?:not )?ok [1-9]\d*\b"  # TAP, a part of a test
    r"|\bTests run: [1-9]|^OK \([1-9]\d* tests?\b|^Tests: [1-9]\d*, Assertions: |\b(?:Passed|Failed): +[1-9]"
    r"|\b[1-9]\d* (?:examples?|runs), |\btests failed out of [1-9]|^Files=\d+, Tests=[1-9]",
    re.MULTILINE,
)
"""Lines in which the usual test programs report the result of a test."""
_NO_TESTS = re.compile(
    r"^Ran 0 tests\b|^=* *no tests (?:ran|collected)\b|^collected 0 items|/ 0 selected *$|^=* *\d+ deselected in "
    r"|^=* *\d+(?:/\d+)? tests? collected\b|^(?:ImportError|\S+Error) while loading conftest|^INTERNALERROR>"
    r"|^=* *(?:\d+ [a-z]+,? )+in [\d.]+s"
    r"|^ERROR: (?:not found|file or directory not found): |^ERROR collecting |\berrors? during collection\b"
    r"|\(unittest\.loader\._FailedTest\b|^OK \(skipped=\d+\)$"
    r"|^running 0 tests$|^error(?:\[E\d+\])?: |\bcould not find `Cargo\.toml`"
    r"|\[(?:build|setup) failed\]|\[no test files\]|\[no tests to run\]|^no Go files in |\bcannot find main module\b"
    r"|\b[Nn]o test(?:s| files?)? found\b|^ *Tests +no tests|^Tests: +0 total|\bTest suite failed to run\b"
    r"|\bMissing script: |\bno test specified\b|^npm (?:ERR!|error) (?:code )?(?:ENOENT|enoent|EJSONPARSE)"
    r"|\bNo rule to make target\b|\bNo targets specified and no makefile found\b|\b[Mm]akefile:\d+: \*\*\* "
    r"|^\S+:\d+:\d+: (?:fatal )?error: |\bundefined reference to\b|\bCOMPILATION ERROR\b|\berror CS\d+\b"
    r"|\bNo tox configuration\b|\bcould not find (?:the )?tox\b|\bFailed to find nox|\bnoxfile\.py not found\b"
    r"|^1\.\.0\b|^(?:#|ℹ) tests 0$|\bTests run: 0\b|\bNo tests (?:executed|were found|to run)\b|^Result: NOTESTS"
    r"|\b0 examples, |\b0 runs, |\b0 passing\b|\bNo module named (?:pytest|unittest|tox|nox)\b",
    re.MULTILINE,
)
"""Lines in which they say that there was no test, or that tests could not be loaded or compiled."""
_TALLIED = (
    *("python -m unittest", "python -m pytest", "pytest", "cargo test", "go test"),
    *("node --test", "jest", "npx jest", "vitest", "npx vitest"),
)
"""Programs that always report the result of a test in a line that is known here, if they run one."""

_RAN = re.compile(r"^Ran (\d+) tests? in .*\n+^(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?[ \t]*$", re.MULTILINE)
_ENDED_WELL = re.compile(r"^OK$", re.MULTILINE)
"""The last line of unittest's summary, where only that was shown."""
_COUNT = re.compile(r"(errors|skipped)=(\d+)")
_ERROR = re.compile(r"^={20,}\s*\nERROR: (\S+ \(.*)$", re.MULTILINE)
"""The head of an error in unittest's report; a line that a program logs has no ruler above it."""
_NOT_LOADED = re.compile(r"\(unittest\.loader\.|ModuleImportFailure\b")
_FIXTURE = re.compile(r"(?:setUp|tearDown)(?:Class|Module) \(")
_NODE_PASSED = re.compile(r"^(?:#|ℹ) pass (\d+)$", re.MULTILINE)
_NODE_TEST = re.compile(
    r"^ *(?:(?P<ok>ok)|not ok) \d+ - (?P<tap>.+)$|^ *(?:(?P<good>✔)|✖) (?P<spec>.+) \([\d.]+ms\)$", re.MULTILINE
)
_NODE_FILE = re.compile(r"\S+\.\w{1,5}")
"""A test file that Node runs counts as a test, and bears the file's name."""


def gave_results(program: str, command: str, output: str, exit_code: int | None) -> bool:
    """Whether `program` (as in `rewards.test_programs`), run by `command`, gave the result of at least one test.

    A test that passed or failed is a result, also beside tests that could not be loaded; a skipped test is none. Where
    the output says nothing of tests, a program whose reports are known gave none, unless its own exit status is 0;
    another one is taken to have tested what it should.
    """
    if _TEST_RESULTS.search(output) is not None or _unittest_results(output) or _node_results(output):
        return True
    if any(words.search(output) is not None for words in (_NO_TESTS, _RAN, _NODE_PASSED)):
        return False
    if program_words(program) not in [program_words(known) for known in _TALLIED]:
        return True
    return _ENDED_WELL.search(output) is not None or (exit_code == 0 and sole_command(command))


def _unittest_results(output: str) -> bool:
    """Whether a summary of unittest counts a test beside those that could not be loaded.

    The summary counts errors of tests and of loading alike; the heads of the errors, where shown, tell them apart.
    """
    heads = _ERROR.findall(output)
    fixtures = sum(_FIXTURE.match(head) is not None for head in heads)
    errors_of_tests = sum(_NOT_LOADED.search(head) is None for head in heads) - fixtures
    for ran, words in _RAN.findall(output):
        said = {word: int(count) for word, count in _COUNT.findall(words)}
        errors = max(said.get("errors", 0) - fixtures, 0)
        if int(ran) - said.get("skipped", 0) - errors + min(errors_of_tests, errors) > 0:
            return True
    return False


def _node_results(output: str) -> bool:
    """Whether Node's test runner reports a test that is no file."""
    tests = [(match["ok"] or match["good"], match["tap"] or match["spec"]) for match in _NODE_TEST.finditer(output)]
    if any(_NODE_FILE.fullmatch(name) is None for _, name in tests):
        return True
    files = len({name for passed, name in tests if passed})
    return any(int(passed) > files for passed in _NODE_PASSED.findall(output))
