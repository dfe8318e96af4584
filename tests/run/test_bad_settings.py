"""What a person got wrong before a run: one sentence, the right exit code, and nothing was begun."""

from __future__ import annotations

import contextlib
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.run.conftest import House, MakeHouse


@dataclass(frozen=True)
class SettledHouse:
    """A home that has lived for a cycle."""

    house: House
    good: str
    """Text of its configuration."""


@pytest.fixture(scope="module")
def settled(make_house: MakeHouse) -> SettledHouse:
    """A home that has lived for a cycle."""
    house = make_house()
    house.run("--cycles", "1", "--script", house.endless())
    good = (house.home / "conch.yaml").read_text()
    return SettledHouse(house, good)


@pytest.mark.parametrize(
    ("yaml", "told"),
    [
        pytest.param("mind:\n  kynd: reflex\n", r"mind.kind", id="typo"),
        pytest.param(
            "rewards:\n  weights: {format: 0.3, execution: 0.25, needs: 0.2, goal: 0.15, exploration: 0.0}\n",
            "0.9",
            id="weights",
        ),
        pytest.param("cycle: [1, 2\n", "wrong.yaml line 2", id="no YAML"),
        pytest.param("cycle:\n  interval: soon\n", "cycle.interval", id="no number"),
        pytest.param("store:\n  url: mysql://there\n", "store.url", id="store"),
        pytest.param("store:\n  keep: {days: -1}\n", "store.keep.days", id="negative days"),
        pytest.param("store:\n  keep: {gib: 0.001}\n", "store.keep.gib", id="tiny room"),
        pytest.param("store:\n  keep: {months: 3}\n", "store.keep.months", id="unknown bound"),
    ],
)
def test_a_wrong_setting_ends_a_run_before_it_begins(settled: SettledHouse, yaml: str, told: str) -> None:
    """Exit code 2, and the sentence names what is meant."""
    file = settled.house.directory / "wrong.yaml"
    file.write_text(yaml)

    sentence = settled.house.refused("run", "--cycles", "1", "--config", str(file), status=2)

    assert told in sentence
    settled.house.assert_nothing_runs()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--config", "nowhere.yaml"),
        ("--script", "nowhere.txt"),
        ("--rules", "nowhere.py"),
    ],
)
def test_a_named_file_must_be_there(settled: SettledHouse, arguments: tuple[str, str]) -> None:
    """Exit code 2, and the sentence names the file."""
    assert arguments[1] in settled.house.refused("run", "--cycles", "1", *arguments, status=2)


def test_a_wrong_flag_is_a_usage_error(settled: SettledHouse) -> None:
    """Also values that cannot be."""
    settled.house.refused("run", "--cycle", "1", status=2)
    assert "at least 1" in settled.house.refused("run", "--cycles", "0", status=2)
    settled.house.refused("run", "--mind", "genius", status=2)
    settled.house.refused("run", "--interval", "-1", status=2)


def test_an_environment_variable_that_is_misspelt_is_refused(settled: SettledHouse) -> None:
    """The nearest name is said."""
    sentence = settled.house.refused("run", "--cycles", "1", status=2, CONCH_MIND__MODLE="x")

    assert "CONCH_MIND__MODEL" in sentence


@pytest.mark.parametrize("flag", ["--metrics-port", "--ui-port"])
def test_a_named_port_that_is_taken_is_an_error(settled: SettledHouse, flag: str) -> None:
    """Whoever names a port relies on it: exit code 1, however short the run."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = ("--cycles", "1", "--script", settled.house.endless(), flag, port)
        sentence = settled.house.refused("run", *options, status=1)

    assert port in sentence
    settled.house.assert_nothing_runs()


def test_without_a_name_a_taken_port_is_replaced(settled: SettledHouse) -> None:
    """The run takes another one and says so. A run beside us may have the usual one, and end before ours begins: then
    ours has it, and says nothing of the kind."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            held.enter_context(socket.create_server(("127.0.0.1", 9464)))
        live = settled.house.run("--cycles", "1", "--script", settled.house.endless())

    [(port, note)] = re.findall(r"^metrics http://127\.0\.0\.1:(\d+)/metrics(.*)$", live.said, re.MULTILINE)
    assert note == ("" if port == "9464" else " (port 9464 is taken)")


def test_a_workspace_that_cannot_be_is_a_usage_error(settled: SettledHouse) -> None:
    """A file is no directory to work in."""
    place = str(settled.house.workspace / "readme.txt")

    assert place in settled.house.refused("run", "--cycles", "1", "--workspace", place, status=2)


def test_nothing_was_lost_meanwhile(settled: SettledHouse) -> None:
    """After all that the home is as it was, and goes on."""
    before = [row["cycle"] for row in settled.house.cycles()]

    live = settled.house.run("--cycles", "1", "--script", settled.house.endless())

    assert [row["cycle"] for row in live.rows] == [before[-1] + 1]
    assert before == list(range(len(before)))
    assert (settled.house.home / "conch.yaml").read_text() == settled.good


def test_a_workspace_around_the_home_is_refused(house: House) -> None:
    """The agent would see the run's token and store: named, with what to do, before anything is made."""
    sentence = house.refused("run", "--cycles", "1", "--workspace", str(house.home.parent), status=2)

    assert "holds the home" in sentence
    assert not (house.home / "bus").exists()
