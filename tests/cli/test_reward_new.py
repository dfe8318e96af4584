"""`conch reward new`: what it writes works as it is."""

from __future__ import annotations

import json
import operator
import re
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.cli.common import CommonOptions
from conch.cli.reward.new import new
from conch.cli.reward.trying import try_
from conch.consumer.plugins.discover import look
from conch.consumer.plugins.replay_file import recorded_acts
from conch.errors import UsageError

if TYPE_CHECKING:
    from conch.home import Home


Printed = Callable[[], str]


def command(*arguments: str, at: Path) -> str:
    """Its output; it must end well."""
    done = subprocess.run(arguments, cwd=at, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def package(tmp_path: Path, common: CommonOptions) -> Path:
    """As it was written."""
    place = tmp_path / "there" / "thrift"
    new("thrift", place, common=common)
    return place


async def test_the_rule_runs_as_it_is_over_the_acts_beside_it(
    package: Path, common: CommonOptions, printed: Printed
) -> None:
    """As a file, without anything installed."""
    printed()
    await try_(str(package / "thrift.py"), replay=package / "actions.jsonl", common=replace(common, json=True))

    [told] = json.loads(printed())["rules"]
    assert (told["name"], told["scored"], told["error"], told["timeout"]) == ("thrift", 5, 0, 0)
    assert told["greatest"] > told["least"]


def test_its_own_test_passes(package: Path) -> None:
    """By what comes with Python, and by pytest."""
    assert "Ran 2 tests" in command(sys.executable, "-m", "unittest", at=package)
    assert "2 passed" in command(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", at=package)


def test_its_own_test_passes_with_acts_behind_those_that_came_with_it(package: Path) -> None:
    """Whatever the agent did is recorded behind them, also of the same skills."""
    acts = package / "actions.jsonl"
    lines = acts.read_text().splitlines()
    acts.write_text("\n".join([*lines, *(line.replace('"raw_length": ', '"raw_length": 9') for line in lines)]) + "\n")

    assert "Ran 2 tests" in command(sys.executable, "-m", "unittest", at=package)


def test_what_it_says_a_rule_may_read_is_there(package: Path) -> None:
    """Each field in the table of its README, of an act that has all of them."""
    told = [line.split("|")[1] for line in (package / "README.md").read_text().splitlines() if line.startswith("| `")]
    fields = [field for cell in told for field in re.findall(r"`([a-z_.]+)`", cell)]
    act = recorded_acts(package / "actions.jsonl")[0]

    assert {"action.skill", "raw_length", "outcome.output.text", "usage.input_tokens", "cycle"} <= set(fields)
    for field in fields:
        operator.attrgetter(field)(act)


async def test_the_rules_in_its_readme_score(package: Path, common: CommonOptions, printed: Printed) -> None:
    """The one with a state and the one with a window, as they stand there, over the acts beside it."""
    blocks = re.findall(r"```python\n(.*?)```", (package / "README.md").read_text(), re.DOTALL)
    told = {}
    for number, block in enumerate(blocks):
        file = package / f"more_{number}.py"
        file.write_text(block)
        printed()
        await try_(str(file), replay=package / "actions.jsonl", common=replace(common, json=True))
        [rule] = json.loads(printed())["rules"]
        told[rule["name"]] = [score["value"] for score in rule["scores"]]

    assert told == {"patience": [None, 0.0, -0.25, None, None], "variety": [1.0] * 5}


def test_it_is_typed_and_in_one_style(tmp_path: Path, common: CommonOptions) -> None:
    """However long the rule's name is."""
    name = "a" * 48
    place = tmp_path / "rule"
    new(name, place, common=common)

    command(sys.executable, "-m", "ruff", "check", "--no-cache", ".", at=place)
    command(sys.executable, "-m", "ruff", "format", "--no-cache", "--check", ".", at=place)
    command(sys.executable, "-m", "mypy", "--strict", "--no-incremental", f"{name}.py", f"test_{name}.py", at=place)


def test_it_is_found_once_it_is_installed(package: Path, tmp_path: Path) -> None:
    """`pip install -e` needs no network where hatchling is there; every run finds the rule then."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = str(tmp_path / "venv" / "bin" / "python")
    here = next(path for path in sys.path if path.endswith("site-packages"))
    [there] = (tmp_path / "venv").glob("lib/python*/site-packages")
    (there / "beside.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install"]
    command(*pip, "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "-e", str(package), at=tmp_path)

    listed = command(python, "-m", "conch.consumer.plugins.discover", "conch.rules:thrift", at=tmp_path)

    [plugin] = json.loads(listed)["plugins"]
    assert (plugin["name"], plugin["weight"], plugin["origin"]) == ("thrift", 0.1, "conch.rules:thrift")


def test_nothing_of_the_template_is_left(package: Path) -> None:
    """Neither its name nor anything that was lying about."""
    files = {file.name: file.read_text() for file in package.iterdir()}

    assert set(files) == {"README.md", "actions.jsonl", "pyproject.toml", "test_thrift.py", "thrift.py"}
    assert not [name for name, text in files.items() if "example_rule" in text]
    assert [one.name for one in look(str(package / "thrift.py")).plugins] == ["thrift"]


def test_a_directory_that_is_there_is_left_alone(package: Path, common: CommonOptions) -> None:
    """Also an empty one, and a link to nowhere."""
    before = sorted(package.iterdir())
    (package.parent / "link").symlink_to("nowhere")

    for place in (package, package.parent / "link"):
        with pytest.raises(UsageError, match="is there already: name another directory"):
            new("other", place, common=common)

    assert sorted(package.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "no rule can be called ''"),
        ("Thrift", "small letters"),
        ("my-rule", "small letters, digits and '_'"),
        ("../up", "small letters"),
        ("a" * 49, "at most 48"),
        ("lambda", "it is a word of Python"),
        ("test_x", "pytest would take it for a test"),
        ("goal", "the name goal is taken"),
        ("diversity", "the name diversity is taken"),
        ("witness", "the name witness is taken"),
        ("truth", "taken, by what comes with Conch or by conch.yaml"),
        ("json", "there is a Python module json already"),
        ("conch", "there is a Python module conch already"),
    ],
)
def test_a_name_that_cannot_be_is_a_sentence(
    name: str, why: str, home: Home, common: CommonOptions, tmp_path: Path, printed: Printed
) -> None:
    """And nothing is written."""
    home.config_file.write_text("rewards: {parts: {truth: {}}}\n")

    with pytest.raises(UsageError, match=why):
        new(name, tmp_path / "place", common=common)

    assert not (tmp_path / "place").exists()


def test_its_name_says_where_by_default(
    common: CommonOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Printed
) -> None:
    """A directory of that name, here; and what to type next."""
    monkeypatch.chdir(tmp_path)

    new("thrift", common=common)

    assert (tmp_path / "thrift" / "thrift.py").is_file()
    assert f"conch run --rules {tmp_path / 'thrift' / 'thrift.py'}" in printed()
