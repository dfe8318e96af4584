"""`conch data`: data sets are written, counted, led back to their acts, and removed."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli import data
from conch.cli.common import CommonOptions
from conch.data import LeftOut, Selection, make_row, write_snapshot
from conch.errors import CheckError, StoreError, UsageError
from conch.home import Home

if TYPE_CHECKING:
    from tests.cli.conftest import Conch, Kept, Life

Printed = Callable[[], str]
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv = ["conch", *sys.argv[2:]]
from conch.cli.main import main
main()
"""
"""Runs a command that may write files of so many bytes: as a full disk, a longer one is refused in mid-write."""


def exported(common: CommonOptions, printed: Printed, format: str = "cycles", name: str | None = "one") -> Path:
    """A snapshot of these experiences: its directory."""
    data.export(format=format, snapshot=name, common=replace(common, json=True))  # type: ignore[arg-type]
    return Path(json.loads(printed())["path"])


def test_an_export_says_what_went_in_and_why_not(
    filled: Life, common: CommonOptions, home: Home, printed: Printed
) -> None:
    """The counts add up; the name is the digest's where none is given; an export without rows says why."""
    data.export(format="cycles", common=common)
    cycles = printed()
    data.export(format="sft", common=replace(common, json=True))
    sft = json.loads(printed())

    evaluated = int(cycles.partition(" train, ")[2].partition(" eval")[0])
    assert f"3 rows of cycles ({3 - evaluated} train, {evaluated} eval, {evaluated / 3:.1%} of them)" in cycles
    manifest = sft["manifest"]
    assert sft["name"] == manifest["digest"][:12]
    assert (manifest["rows_seen"], manifest["rows_in"], manifest["left_out"]) == (3, 0, {"prompt not recorded": 3})
    assert manifest["why_empty"] == "All 3 acts and pairs were left out, 3 of them for: prompt not recorded."
    assert sorted(path.name for path in Path(sft["path"]).iterdir()) == [
        "eval-00000.parquet",
        "manifest.json",
        "train-00000.parquet",
    ]


def test_a_home_without_experiences_gives_an_empty_data_set(conch: Conch) -> None:
    """It has columns, and the exit code is 0."""
    done = conch("data", "export", "--format", "kto", "--jsonl")

    assert done.returncode == 0, done.stderr
    assert "There is no act in the store yet: conch run makes some." in done.stdout


def test_the_same_export_twice_is_one_snapshot(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """Byte by byte, under its own name and under another one; nothing unfinished is left."""
    first = exported(common, printed, name=None)
    before = {path.name: path.read_bytes() for path in first.iterdir()}
    again, other = exported(common, printed, name=None), exported(common, printed, name="other")

    assert again == first
    assert {path.name: path.read_bytes() for path in other.iterdir()} == before
    assert sorted(path.name for path in first.parent.iterdir()) == sorted([first.name, "other"])


def test_a_name_that_another_snapshot_has_is_refused(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """What is there stays."""
    place = exported(common, printed)
    before = (place / "manifest.json").read_bytes()

    with pytest.raises(UsageError, match="another snapshot"):
        data.export(format="sft", snapshot="one", common=common)
    with pytest.raises(UsageError, match="no name of a snapshot"):
        data.export(format="sft", snapshot="../one", common=common)

    assert (place / "manifest.json").read_bytes() == before
    assert [path.name for path in place.parent.iterdir()] == ["one"]


def test_a_row_leads_to_its_act_its_rules_and_its_marks(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """By its id or the beginning of it; the marks are those of the act and of its scores."""
    place = exported(common, printed)
    row = _first_row(place)

    data.why(row["row_id"][:14], common=replace(common, json=True))
    shown = json.loads(printed())

    (act,) = shown["acts"]
    assert (shown["snapshot"], shown["row_id"]) == ("one", row["row_id"])
    assert [act["action_id"]] == row["action_ids"]
    assert act["revision"] == row["revision"] == 1
    assert {(one["scorer"], one["version"]) for one in act["scores"]} >= {("reward", "1"), ("needs", "1")}
    assert len(act["marks"]) == 2
    data.why(row["row_id"], common=common)
    assert "marks: " in printed()


def test_a_row_that_is_nowhere_is_named(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """One sentence for an id without a row, and for what is no id."""
    exported(common, printed)

    with pytest.raises(UsageError, match="has a row 000000000000"):
        data.why("0" * 12, common=common)
    with pytest.raises(UsageError, match="is no row id"):
        data.why("../../etc", common=common)


@pytest.mark.parametrize("jsonl", [False, True])
def test_edited_rows_are_found(filled: Life, common: CommonOptions, printed: Printed, jsonl: bool) -> None:
    """`stats` finds that the file has other bytes, `why` that the row's id is not that of its content."""
    data.export(format="cycles", snapshot="one", jsonl=jsonl, common=replace(common, json=True))
    place = Path(json.loads(printed())["path"])
    row = _first_row(place)
    _edit(place / f"train-00000.{'jsonl' if jsonl else 'parquet'}")

    with pytest.raises(CheckError, match=r"train-00000.* was edited"):
        data.stats("one", common=common)
    with pytest.raises(CheckError, match=f"the row {row['row_id']} was edited"):
        data.why(row["row_id"], common=common)


@pytest.mark.parametrize("name", ["train-00000.parquet", "manifest.json"])
def test_the_same_export_mends_a_snapshot(filled: Life, common: CommonOptions, printed: Printed, name: str) -> None:
    """What says of an edited file that it is to be exported again is right: the export puts the whole one there."""
    place = exported(common, printed, name=None)
    whole = (place / name).read_bytes()
    (place / name).write_bytes(whole.replace(b"r", b"q", 1))

    assert exported(common, printed, name=None) == place

    assert (place / name).read_bytes() == whole
    assert [one.name for one in place.parent.iterdir()] == [place.name]


def test_another_name_is_asked_for_beside_an_edited_manifest(
    filled: Life, common: CommonOptions, printed: Printed
) -> None:
    """Under a chosen name an edited manifest may be of other rows: it stays."""
    place = exported(common, printed)
    (place / "manifest.json").write_text("{}")

    with pytest.raises(UsageError, match="was edited: choose another name with --snapshot"):
        exported(common, printed)

    assert (place / "manifest.json").read_text() == "{}"


def test_an_edited_manifest_is_found(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """Also where it is no manifest any more."""
    place = exported(common, printed) / "manifest.json"
    place.write_bytes(place.read_bytes().replace(b'"rows_in":3', b'"rows_in":4'))
    with pytest.raises(CheckError, match="was edited"):
        data.stats("one", common=common)

    place.write_text("{}")
    with pytest.raises(CheckError, match="is no manifest"):
        data.stats("one", common=common)


def test_a_damaged_line_is_one_sentence(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """A line of JSON Lines that is cut off is a failed check, as a cut file is."""
    data.export(format="cycles", snapshot="lines", jsonl=True, common=replace(common, json=True))
    file = Path(json.loads(printed())["path"]) / "train-00000.jsonl"
    row = json.loads(file.read_text().rstrip("\n").split("\n")[-1])["row_id"]
    file.write_bytes(file.read_bytes().rstrip()[:-1])
    with pytest.raises(CheckError, match="cannot be read"):
        data.why(row, common=common)


def test_a_damaged_file_is_one_sentence(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """A file that is cut off, or missing, is a failed check."""
    place = exported(common, printed)
    row = _first_row(place)
    file = place / "train-00000.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckError, match="cannot be read"):
        data.why(row["row_id"], common=common)

    file.unlink()
    with pytest.raises(CheckError, match="is missing"):
        data.stats("one", common=common)
    with pytest.raises(CheckError, match="is missing"):
        data.why(row["row_id"], common=common)


def test_a_row_is_found_beside_a_damaged_snapshot(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """An older snapshot has it too."""
    row = _first_row(exported(common, printed))["row_id"]
    data.export(format="cycles", snapshot="two", common=replace(common, json=True))
    (Path(json.loads(printed())["path"]) / "train-00000.parquet").unlink()

    data.why(row, common=common)

    assert f"row {row[:12]} of one (cycles)" in printed()


def test_stats_shows_what_a_snapshot_holds(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """A line for each figure; without a name, a line for each snapshot."""
    exported(common, printed)

    data.stats("one", common=common)
    one = printed()
    data.stats(common=common)
    every = printed()
    data.stats(common=replace(common, json=True))

    assert "by status: success 3" in one
    assert every.splitlines()[1].split() == ["one", "cycles", "3", "3"]
    assert [snapshot["name"] for snapshot in json.loads(printed())["snapshots"]] == ["one"]
    with pytest.raises(UsageError, match="there is no snapshot at"):
        data.stats("two", common=common)


def test_a_long_figure_says_how_much_is_left_out(home: Home, common: CommonOptions, printed: Printed) -> None:
    """12 keys are shown of each, with the number of the others; `--all` shows them all."""
    rows = (make_row("cycles", {"n": at}, agent=f"a{at:02}", action_ids=(), state_key="", prompt_hash="",
                     skill=f"tool{at:02}") for at in range(15))  # fmt: skip
    write_snapshot(rows, home.path / "data", "cycles", Selection(), name="one", jsonl=True)

    data.stats("one", common=common)
    short = printed()
    data.stats("one", whole=True, common=common)

    assert "tool11 1 and 3 more (--all)" in short
    assert "tool14" not in short
    assert "tool14 1\n" in printed()


def test_a_foreign_manifest_is_named_and_passed_over(
    filled: Life, common: CommonOptions, home: Home, printed: Printed
) -> None:
    """`stats` lists the snapshots beside it, and `why` finds their rows; a row that none has may be there."""
    place = exported(common, printed)
    row = _first_row(place)["row_id"]
    (home.path / "data" / "site").mkdir()
    (home.path / "data" / "site" / "manifest.json").write_text('{"name": "a page"}')

    data.stats(common=common)
    listed = printed()
    data.stats(common=replace(common, json=True))
    found = json.loads(printed())
    data.why(row, common=common)

    assert listed.splitlines()[1].split() == ["one", "cycles", "3", "3"]
    assert "site/manifest.json is no manifest of a data set" in " ".join(listed.split())
    assert ([one["name"] for one in found["snapshots"]], len(found["unread"])) == (["one"], 1)
    assert row[:12] in printed()
    with pytest.raises(CheckError, match="is no manifest"):
        data.why("0" * 12, common=common)


def test_prune_keeps_the_newest(filled: Life, common: CommonOptions, home: Home, printed: Printed) -> None:
    """What an export left that was killed goes too."""
    for place, name in enumerate(("a", "b", "c")):
        manifest = exported(common, printed, name=name) / "manifest.json"
        os.utime(manifest, (place, place))
    (home.path / "data" / ".unfinished-1").mkdir()

    data.prune(keep=1, common=replace(common, json=True))

    assert json.loads(printed())["removed"] == ["a", "b", ".unfinished-1"]
    assert [path.name for path in (home.path / "data").iterdir()] == ["c"]


def test_prune_leaves_the_directories_of_others(
    filled: Life, common: CommonOptions, home: Home, printed: Printed
) -> None:
    """A manifest of another program, an edited one and a link to a snapshot stay, and do not count as snapshots."""
    place = exported(common, printed)
    for name, text in (("site", '{"name": "a page"}'), ("notes", "no JSON"), ("edited", "")):
        (home.path / "data" / name).mkdir()
        whole = (place / "manifest.json").read_text().replace('"rows_in":3', '"rows_in":4')
        (home.path / "data" / name / "manifest.json").write_text(text or whole)
    (home.path / "data" / "link").symlink_to(place)

    data.prune(keep=1, common=replace(common, json=True))
    kept = json.loads(printed())["removed"]
    data.prune(keep=0, common=replace(common, json=True))

    assert (kept, json.loads(printed())["removed"]) == ([], ["one"])
    assert sorted(path.name for path in (home.path / "data").iterdir()) == ["edited", "link", "notes", "site"]


def test_prune_leaves_an_export_in_progress(home: Home, common: CommonOptions, printed: Printed) -> None:
    """The export gets its name after a prune that ran beside it."""

    def answers() -> Iterator[LeftOut]:
        data.prune(keep=0, common=replace(common, json=True))
        yield LeftOut("blocked")

    place, _ = write_snapshot(answers(), home.path / "data", "cycles", Selection(), name="one")

    assert json.loads(printed())["removed"] == []
    assert [path.name for path in (home.path / "data").iterdir()] == [place.name]


@pytest.mark.parametrize("out", ["file", "file/below", "/proc/none", "x" * 300])
def test_a_place_that_is_no_directory_is_refused(filled: Life, common: CommonOptions, tmp_path: Path, out: str) -> None:
    """One sentence names it, and a file that is there stays."""
    (tmp_path / "file").write_text("mine")

    with pytest.raises(UsageError, match=r"is no directory that can be written in \(.+\): name another one with --out"):
        data.export(format="cycles", out=tmp_path / out, common=common)

    assert (tmp_path / "file").read_text() == "mine"


def test_a_full_disk_leaves_no_half_snapshot(filled: Life, kept: Kept, home: Home) -> None:
    """The export fails with one sentence; nothing stands under the name, and nothing unfinished is left."""
    kept(*(fact for cycle in range(3, 40) for fact in filled.cycle(cycle, "long " * 400)))
    (home.path / "store.db-shm").unlink(missing_ok=True)
    command = [sys.executable, "-c", LIMITED, "50000", "data", "export", "--format", "cycles", "--jsonl"]
    done = subprocess.run([*command, "--home", str(home.path)], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1
    assert done.stderr == f"conch: a file would be larger than the limit ({home.path / 'data'}): raise it (ulimit -f)\n"
    assert list((home.path / "data").iterdir()) == []


def test_a_database_of_a_newer_version_is_refused(filled: Life, common: CommonOptions, home: Home) -> None:
    """One sentence, and no snapshot."""
    with sqlite3.connect(home.path / "store.db") as db:
        db.execute("PRAGMA user_version = 99")

    with pytest.raises(StoreError, match="newer Conch"):
        data.export(format="cycles", common=common)

    assert not (home.path / "data").exists()


def test_an_export_reads_beside_a_writer(filled: Life, common: CommonOptions, home: Home, printed: Printed) -> None:
    """A run that holds the store open, in the middle of a transaction, is no obstacle."""
    with sqlite3.connect(home.path / "store.db", isolation_level=None) as db:
        db.execute("BEGIN IMMEDIATE")
        place = exported(common, printed)
        db.execute("ROLLBACK")

    assert place.name == "one"


def test_hostile_text_does_no_harm(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """Lone surrogates, escapes and markup become a row that any reader takes."""
    place = exported(common, printed)

    import duckdb
    import polars

    assert polars.read_parquet(place / "*.parquet").height == 3
    assert duckdb.sql(f"SELECT count(*) FROM '{place}/*.parquet'").fetchall() == [(3,)]


def _first_row(place: Path) -> dict[str, Any]:
    lines = place / "train-00000.jsonl"
    if lines.exists():
        return json.loads(lines.read_text().split("\n")[0])
    import pyarrow.parquet as pq

    return pq.read_table(place / "train-00000.parquet").to_pylist()[0]


def _edit(file: Path) -> None:
    """Change the reward of every row, and write the file as it was written."""
    if file.suffix == ".jsonl":
        rows = [json.loads(line) | {"reward": 1.0} for line in file.read_text().split("\n")[:-1]]
        file.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(file)
    column = table.column_names.index("reward")
    pq.write_table(table.set_column(column, "reward", pa.array([1.0] * table.num_rows)), file)
