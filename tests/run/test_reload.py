"""Rule files that are edited while a run goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.run.conftest import House


HEAD = "from conch import rule\nfrom pydantic import BaseModel\n"
RULE = "@rule({words})\ndef {name}(action):\n    return {value}\n"


def rule(name: str = "shape", value: str = "0.25", words: str = "weight=0.2") -> str:
    return RULE.format(name=name, value=value, words=words)


class Edited:
    """A run with `--reload`, and its file of rules."""

    def __init__(self, house: Any, text: str, *more: str) -> None:
        self.file = Path(house.directory / "rules.py")
        self.file.write_text(HEAD + text)
        self.house = house
        options = ["--rules", str(self.file), "--reload", "--script", house.endless(), *more]
        self.live = house.begin(*options, interval=0.1)
        self.live.recorded(1)

    def edit(self, text: str, says: str) -> None:
        """As most editors do: a new file in the place of the old one. Waits for the word on it."""
        self.put(HEAD + text)
        self.live.says(says)

    def put(self, text: str) -> None:
        beside = self.file.with_suffix(".new")
        beside.write_text(text)
        os.replace(beside, self.file)

    def scored(self, name: str, holds: Callable[[dict[str, Any]], Any]) -> None:
        """Wait for a row in which it has a score of which this holds."""
        self.live.until(lambda: any(holds(one) for one in self.scores(name)), f"{name} as wanted")

    def scores(self, name: str) -> list[dict[str, Any]]:
        return [one for row in self.live.rows for one in row["scores"] if one["component"] == name]

    def end(self) -> list[dict[str, Any]]:
        """Stop the run; everything that was done in it, recorded."""
        self.live.signal(signal.SIGTERM)
        assert self.live.ended() == 0, self.live.told()
        return list(self.house.cycles())


def test_a_file_that_is_edited_takes_effect(house: House) -> None:
    """Another function, weight, range and version; a rule that comes, one that goes; nothing is lost or doubled."""
    run = Edited(house, rule())
    run.scored("shape", lambda one: one["value"] == 0.25)

    run.edit(rule(value="0.75"), r"rules.py is in force as it is now: shape still version 1\n")
    run.scored("shape", lambda one: one["value"] == 0.75 and one["version"] == "1")
    run.edit(rule(value="3.0", words="weight=0.4, range=(0, 4), version='2'"), "shape version 2\n")
    run.scored("shape", lambda one: one["value"] == 3.0 and one["weight"] == 0.4 and one["version"] == "2")
    run.edit(rule("other", "0.5", "weight=0.1"), "other version 1 is new, shape is gone")
    run.scored("other", lambda one: one["value"] == 0.5 and one["weight"] == 0.1)
    rows = run.end()

    assert [row["cycle"] for row in rows] == list(range(len(rows)))
    assert [row["revision"] for row in rows[:-1]] == [1] * (len(rows) - 1)
    assert all(row["complete"] for row in rows[:-1])
    names = [{one["component"] for one in row["scores"]} & {"shape", "other"} for row in rows]
    assert names == sorted(names, key=lambda one: one == {"other"}), "one after the other, never both, never none"


def test_what_cannot_be_taken_leaves_what_was(house: House) -> None:
    """A half-written line, too much weight, a file that is gone: each said in one sentence, and the rule before scores
    on, even in a process that was begun since; the next whole file is taken."""
    (late := house.directory / "late.py").write_text("def half(:\n")
    dies = "0.25 if action.cycle % 5 else __import__('os')._exit(3)"
    run = Edited(house, rule(value=dies), "--rules", str(late))
    broken = [
        ("def half(:\n", "it was stays in force: SyntaxError: "),
        (rule(words="weight=0.9") + rule("twin", words="weight=0.9"), "it was stays in force: .*sum to 1.8"),
        (rule(words="weight=7"), "it was stays in force: ContractError: rule shape: weight 7"),
        ("", "it was stays in force: ContractError: it declares no @rule"),
    ]
    for text, says in broken:
        run.edit(text, says)
    run.file.unlink()
    run.live.says("it was stays in force: FileNotFoundError")
    died = len([one for one in run.scores("shape") if one["status"] == "error"])
    run.live.until(lambda: len([one for one in run.scores("shape") if one["status"] == "error"]) > died, "its death")
    run.live.recorded(2)
    assert [one["value"] for one in run.scores("shape")].count(0.25) > 2
    run.edit(rule(value="0.5"), "rules.py is in force as it is now")
    late.write_text(HEAD + rule("late"))
    run.live.says("late version 1 is new")
    run.scored("shape", lambda one: one["value"] == 0.5)
    run.end()

    assert {one["value"] for one in run.scores("shape")} == {0.25, 0.5, None}
    assert run.live.said.count("stays in force") == 5
    assert run.live.said.count("set aside") == 1
    assert "Traceback" not in run.live.said


def test_a_link_that_leads_elsewhere_is_followed(house: House) -> None:
    """As a mounted set of files is exchanged: the file is a link into a directory that is itself a link."""
    for name, value in (("v1", "0.25"), ("v2", "0.75")):
        (house.directory / name).mkdir()
        (house.directory / name / "r.py").write_text(HEAD + rule(value=value))
    (house.directory / "data").symlink_to("v1")
    (house.directory / "r.py").symlink_to("data/r.py")
    options = ("--rules", str(house.directory / "r.py"), "--reload", "--script", house.endless())
    live = house.begin(*options, interval=0.1)
    live.recorded(1)

    (house.directory / "beside").symlink_to("v2")
    os.replace(house.directory / "beside", house.directory / "data")

    live.says("r.py is in force as it is now: shape still version 1")
    live.signal(signal.SIGTERM)
    assert live.ended() == 0, live.told()


def test_only_another_text_is_news(house: House) -> None:
    """A touch is none; of many writings in a row the last one counts; a state goes through it all."""
    state = "class Count(BaseModel):\n    acts: int = 0\n"
    folded = (
        state + "@rule(state=Count, range=(0, 1000))\ndef count(state, action):\n"
        "    after = Count(acts=state.acts + 1)\n    return after, {value}\n"
    )
    run = Edited(house, folded.format(value="after.acts"))
    os.utime(run.file)
    for number in range(30):
        run.put(HEAD + folded.format(value=f"after.acts + {number} * 0"))
    run.edit(folded.format(value="after.acts + 0.5"), "count still version 1")
    run.scored("count", lambda one: one["value"] is not None and one["value"] % 1)
    rows = run.end()

    values = [one["value"] for row in rows for one in row["scores"] if one["component"] == "count"]
    assert [int(value) for value in values] == list(range(1, len(values) + 1))
    assert 1 <= run.live.said.count("is in force as it is now") <= 4


def test_without_reload_nothing_is_looked_after(house: House) -> None:
    """A rule is what it was when the run began, in a process that is begun later too; and --reload needs a file."""
    file = house.directory / "rules.py"
    file.write_text(HEAD + rule(value="0.25 if action.cycle % 3 else __import__('os')._exit(3)"))
    live = house.begin("--rules", str(file), "--script", house.endless(), interval=0.1)
    live.recorded(1)
    file.write_text(HEAD + rule(value="0.75"))
    live.recorded(8)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0

    values = [one["value"] for row in live.rows for one in row["scores"] if one["component"] == "shape"]
    assert set(values) == {0.25, None}
    assert "--rules: name one" in house.refused("run", "--cycles", "1", "--reload", status=2)
