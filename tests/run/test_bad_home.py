"""Homes that cannot be used, and homes that were damaged: a sentence, an exit code, nothing lost."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from conch.home import Home

if TYPE_CHECKING:
    from tests.run.conftest import House


@pytest.fixture
def mounted(tmp_path: Path, lacking: Callable[[str], NoReturn]) -> Iterator[Callable[[str], Path]]:
    """`mounted("size=4m")`: a file system in memory with these options."""
    place = tmp_path / "mounted"
    place.mkdir()

    def mount(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
            lacking("a file system cannot be mounted here: run the tests as root, in a container that may mount")
        return place

    yield mount
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def lived(house: Any, cycles: int = 3) -> list[str]:
    """The home after a few cycles: their action ids."""
    house.live_through(cycles)
    return [row["action_id"] for row in house.cycles()]


def test_a_home_is_owned_by_one_run(house: House) -> None:
    """A second run is refused with the first one's process, which goes on."""
    live = house.begin("--script", house.endless(), interval=0.05)
    live.recorded(1)

    sentence = house.refused("run", "--cycles", "1", status=1)

    assert f"in use by process {live.pid}" in sentence
    live.recorded(2)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0


def test_a_run_waits_for_a_short_command_that_has_the_home(house: House) -> None:
    """A restart beside commands that read begins as soon as they are done; no restart fails for them."""
    house.live_through(3)
    commands = [house.start("mark", "verify") for _ in range(3)]

    house.run("--cycles", "1", "--script", house.endless())

    assert [command.ended() for command in commands] == [0, 0, 0]


def test_a_home_that_everybody_could_read_is_closed(house: House) -> None:
    """Made beforehand, or by an older version: its mode is 700 after the start, its store's 600; both are said once."""
    house.home.mkdir(mode=0o755)
    house.home.chmod(0o755)
    first = house.run("--cycles", "1", "--script", house.endless())
    house.home.chmod(0o750)
    (house.home / "store.db").chmod(0o644)
    second = house.run("--cycles", "1", "--script", house.endless())

    assert f"{house.home} could be read by everybody (mode 755): its mode is 700 now\n" in first.said
    assert "could be read by everybody" in (house.home / "logs" / "run.log").read_text()
    assert "could be read" not in second.said
    assert house.home.stat().st_mode & 0o777 == 0o750  # a group may have been let in on purpose
    assert (house.home / "store.db").stat().st_mode & 0o777 == 0o600


def test_the_home_of_another_user_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says who is to do what."""
    tmp_path.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)

    said = Home(tmp_path).close_to_others()

    assert said == (
        f"{tmp_path} could be read by everybody (mode 755) and belongs to another user: its owner should chmod 700 it"
    )
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_home_below_a_file_is_no_home(house: House) -> None:
    """Also root cannot make one there."""
    house.home = house.workspace / "readme.txt" / "home"

    assert "cannot be written" in house.refused("run", "--cycles", "1", status=1)


def test_a_home_that_is_a_file_is_no_home(house: House) -> None:
    """The file stays what it was."""
    house.home = house.workspace / "readme.txt"

    house.refused("run", "--cycles", "1", status=1)

    assert house.home.read_text() == "Work here.\n"


def test_a_read_only_home_is_refused(house: House, mounted: Callable[[str], Path]) -> None:
    """Nothing is tried, it is said what to mend."""
    house.home = mounted("size=1m,ro") / "home"

    assert "cannot be written" in house.refused("run", "--cycles", "1", status=1)


def test_a_full_home_ends_a_run_and_loses_nothing(house: House, mounted: Callable[[str], Path]) -> None:
    """It is said in a sentence; what was recorded before is there when there is room again, and nothing twice."""
    place = mounted("size=2m")
    house.home = place / "home"
    live = house.begin("--script", house.endless(), CONCH_TOOLS__TIMEOUT="1")

    # Where the store is full first, the run ends; where the stream is, the agent says so and waits for room.
    live.until(lambda: not live.running or "is its disk full" in live.said, "a word of the full disk")
    live.signal(signal.SIGTERM)
    live.ended(100)

    assert "Traceback" not in live.said
    assert "conch: " in live.said or "is its disk full" in live.said
    house.assert_nothing_runs(5)
    subprocess.run(["mount", "-o", "remount,size=200m", str(place)], check=True)
    before = live.rows
    after = house.run("--cycles", "2", "--script", house.endless()).rows
    listed = house.cycles()
    assert [row["cycle"] for row in listed] == list(range(after[-1]["cycle"] + 1))
    assert {row["action_id"] for row in before} <= {row["action_id"] for row in listed}
    house.conch("mark", "verify")


def test_a_newer_home_is_refused(house: House) -> None:
    """It is left as it is: a version that does not know it could harm it."""
    lived(house, 1)
    (house.home / "format").write_text("99\n")

    for command in (("run", "--cycles", "1"), ("ui",), ("ui", "--link"), ("cycle", "list")):
        assert "newer version (format '99'" in house.refused(*command, status=1)
    assert not (house.home / "ui").exists()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda file: file.write_bytes(b"garbage" * 3000), id="garbage"),
        pytest.param(lambda file: os.truncate(file, file.stat().st_size // 2), id="truncated"),
    ],
)
def test_a_damaged_store_is_said_and_can_be_made_again(house: House, damage: Callable[[Path], None]) -> None:
    """The run ends with 1 and says what to do; moved aside, the store is rebuilt from the stream, numbers going on."""
    actions = lived(house)
    for beside in house.home.glob("store.db-*"):
        beside.unlink()
    damage(house.home / "store.db")

    sentence = house.refused("run", "--cycles", "1", "--script", house.endless(), status=1)

    assert "store.db" in sentence
    assert "move it aside" in sentence
    (house.home / "store.db").rename(house.directory / "aside.db")
    house.run("--cycles", "1", "--script", house.endless())
    rows = house.cycles()
    assert [row["cycle"] for row in rows] == [0, 1, 2, 3]
    assert [row["action_id"] for row in rows[:3]] == actions
    assert all(row["complete"] for row in rows)


def blocks(house: Any) -> list[Path]:
    """The stream's files."""
    found = sorted((house.home / "bus" / "jetstream").rglob("streams/*/msgs/*.blk"))
    assert found
    return [file for file in found if "KV_" not in str(file)]


def cut(house: Any) -> None:
    file = blocks(house)[-1]
    os.truncate(file, file.stat().st_size * 2 // 3)


def overwritten(house: Any) -> None:
    with blocks(house)[-1].open("r+b") as file:
        file.seek(file.seek(0, os.SEEK_END) // 2)
        file.write(b"\xff" * 20_000)  # more than one event: within a single one it shows when that one is read


def gone(house: Any) -> None:
    shutil.rmtree(blocks(house)[-1].parents[1])


def all_gone(house: Any) -> None:
    shutil.rmtree(house.home / "bus")


@pytest.mark.parametrize("damage", [cut, overwritten, gone, all_gone])
def test_a_damaged_stream_is_said_and_the_agent_goes_on(house: House, damage: Callable[[Any], None]) -> None:
    """What the store has joined is kept, no number is used again, and later cycles are scored as ever."""
    actions = lived(house, 6)

    damage(house)
    live = house.run("--cycles", "2", "--script", house.endless())

    assert "the stream" in live.said
    rows = house.cycles()
    assert [row["action_id"] for row in rows[:6]] == actions
    assert [row["cycle"] for row in rows] == list(range(8))
    assert all(row["complete"] and row["coverage"] == 1.0 for row in rows)
    assert [row["cycle"] for row in live.rows] == [6, 7]
    house.run("--cycles", "1", "--script", house.endless())


def test_a_home_can_be_moved_between_runs(house: House) -> None:
    """Nothing in it names its own place."""
    actions = lived(house, 2)
    moved = house.directory / "elsewhere"
    house.home.rename(moved)
    house.home = moved

    house.run("--cycles", "1", "--script", house.endless())

    rows = house.cycles()
    assert [row["cycle"] for row in rows] == [0, 1, 2]
    assert [row["action_id"] for row in rows[:2]] == actions


def test_a_damaged_agentuid_is_said(house: House) -> None:
    """Who the agent is cannot be guessed."""
    lived(house, 1)
    (house.home / "agents" / "echo" / "agentuid").write_text("me\n")

    assert "does not hold a UUID" in house.refused("run", "--cycles", "1", "--script", house.endless(), status=1)


def test_marks_go_on_after_the_stream_was_lost(house: House) -> None:
    """Without the bus' files the chain goes on behind the store's last mark and holds; what was lost is said."""
    lived(house)
    shutil.rmtree(house.home / "bus")
    house.run("--cycles", "2", "--script", house.endless())
    said = house.conch("mark", "verify")
    shutil.rmtree(house.home / "bus")
    house.run("--cycles", "1", "--script", house.endless())
    found = json.loads(house.conch("mark", "verify", "--json"))

    assert re.search(r"\d+ marks of 5 acts of echo hold", said)
    assert said.count("lost: after cycle 2 the stream was made anew") == 1
    assert found["ok"]
    assert [lost["cycle"] for lost in found["lost"]] == [2, 4]
    assert 7 <= found["lost"][0]["mark"] < found["lost"][1]["mark"] < found["marks"]
    assert f"the chain goes on behind mark {found['lost'][0]['mark']}" in said


def test_a_chain_that_was_cut_is_found_out_whatever_became_of_the_stream(house: House) -> None:
    """Marks taken out of the store are missed also where the stream was deleted with them, before and after a run."""
    lived(house)
    shutil.rmtree(house.home / "bus")
    with sqlite3.connect(house.home / "store.db") as store:
        store.execute("DELETE FROM marks WHERE sequence >= 3")
    store.close()

    before = house.refused("mark", "verify", status=4)
    house.run("--cycles", "2", "--script", house.endless())
    after = house.refused("mark", "verify", status=4)

    for said in (before, after):
        [wrong] = re.findall(r"(\d+) found wrong", said)
        assert int(wrong) >= 3
    assert "conch bus restore FILE" in after


def lose(house: Any) -> None:
    """Stream and store are gone."""
    shutil.rmtree(house.home / "bus")
    for file in house.home.glob("store.db*"):
        file.unlink()


def test_a_history_that_is_gone_is_said_and_no_number_is_used_again(house: House) -> None:
    """Without stream and store the agent's own files tell that it has acted: numbers, and so ids, do not begin anew."""
    actions = lived(house)
    lose(house)

    doctor = house.conch("doctor", "--json")
    live = house.run("--cycles", "2", "--script", house.endless())
    again = house.run("--cycles", "1", "--script", house.endless())

    assert [one["status"] for one in json.loads(doctor)["checks"] if one["name"] == "history"] == ["warning"]
    assert "agent echo has acted before (3 cycles)" in live.said
    assert "its history is gone, and it goes on with cycle 1003" in live.said
    assert [row["cycle"] for row in live.rows] == [1003, 1004]
    assert not {row["action_id"] for row in live.rows} & set(actions)
    assert "acted before" not in again.said
    assert [row["cycle"] for row in again.rows] == [1005]
    verified = house.start("mark", "verify")
    assert verified.ended() == 4
    assert "was signed on" in verified.told()  # the checkpoints know of the marks that are gone


def test_a_history_of_before_cycles_were_counted_is_missed_too(house: House) -> None:
    """What the mind has learnt tells it; how many there were is not known, so the next number lies far beyond."""
    own = house.home / "agents" / "echo"
    while not (own / "reflex.npz").exists():  # a run that ends before its experiences are heard leaves none
        house.run("--cycles", "3", CONCH_MIND__KIND="reflex")
    lose(house)
    (own / "cycles").unlink()

    live = house.run("--cycles", "1", CONCH_MIND__KIND="reflex")

    assert "agent echo has acted before (it has learnt)" in live.said
    assert [row["cycle"] for row in live.rows] == [1_000_000]


def test_the_end_that_stream_and_store_lost_is_passed_over(house: House) -> None:
    """An older copy of the store alone is not taken for all that there was."""
    lived(house, 2)
    shutil.copy(house.home / "store.db", house.directory / "copy.db")
    actions = [row["action_id"] for row in house.run("--cycles", "3", "--script", house.endless()).rows]
    lose(house)
    (house.directory / "copy.db").rename(house.home / "store.db")

    live = house.run("--cycles", "1", "--script", house.endless())

    assert [row["cycle"] for row in live.rows] == [6]
    assert live.rows[0]["action_id"] not in actions
