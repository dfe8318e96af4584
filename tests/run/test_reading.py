"""The embedded mind in a directory that is a person's own."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.run.conftest import House

REPOSITORY = (
    "git -c init.defaultBranch=main init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm a"
)


def digests(directory: Path) -> dict[str, str]:
    """Relative path -> digest of each file, but for git's own."""
    return {
        str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(directory.rglob("*"))
        if file.is_file() and ".git" not in file.parts
    }


def test_a_persons_repository_is_only_read(house: House) -> None:
    """Forty cycles leave no file changed and nothing to commit; the run says so at its start."""
    for name, text in {"plan.md": "# Plan\n", "src/one.py": "print(1)\n", "data.csv": "a,b\n1,2\n"}.items():
        file = house.workspace / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    subprocess.run(REPOSITORY, shell=True, cwd=house.workspace, check=True)
    before = digests(house.workspace)

    ended = house.run("--cycles", "40", CONCH_MIND__KIND="reflex")

    told = subprocess.run(
        ["git", "status", "--porcelain"], cwd=house.workspace, check=True, capture_output=True, text=True
    )
    assert (told.stdout, digests(house.workspace)) == ("", before)
    assert f"{house.workspace} is yours: the embedded mind only reads there (mind.reflex.writes: true" in ended.said
    assert len({row["action"]["tool"] for row in ended.rows}) > 2


def test_a_setting_lets_the_embedded_mind_write_in_a_persons_directory(house: House) -> None:
    """Then nothing is said, and files change, where a goal asks for one."""
    before = digests(house.workspace)
    check = {"kind": "file", "path": "tide.md", "contains": ["tide"]}
    goals = json.dumps([{"id": "tide", "statement": "tide.md names the tide.", "check": check}])
    writes = {"CONCH_MIND__KIND": "reflex", "CONCH_MIND__REFLEX__WRITES": "true"}

    ended = house.run("--cycles", "40", CONCH_GOALS=goals, **writes)

    assert "only reads there" not in ended.said
    assert digests(house.workspace) != before


def test_outside_of_a_sample_the_embedded_mind_commits_nothing(house: House) -> None:
    """Where a setting lets it write in a person's repository, too: when every template has been tried, the history is
    the person's."""
    subprocess.run(REPOSITORY, shell=True, cwd=house.workspace, check=True)

    ended = house.run("--cycles", "75", CONCH_MIND__KIND="reflex", CONCH_MIND__REFLEX__WRITES="true")

    log = subprocess.run(["git", "log", "--format=%s"], cwd=house.workspace, check=True, capture_output=True, text=True)
    assert log.stdout == "a\n"
    called = [row["action"]["args"].get("operation") for row in ended.rows if row["action"]["tool"] == "git"]
    assert "add" in called
    assert "commit" not in called


def test_an_empty_directory_of_a_person_stays_empty(house: House) -> None:
    """An empty project is no request for a sample: nothing is laid out, no goal is set, nothing is written."""
    (house.workspace / "readme.txt").unlink()

    ended = house.run("--cycles", "22", CONCH_MIND__KIND="reflex")

    assert list(house.workspace.iterdir()) == []
    assert "only reads there" in ended.said
    assert json.loads(house.conch("goal", "list", "--json"))["goals"] == []


def test_a_sample_is_laid_out_elsewhere_on_request(house: House) -> None:
    """`conch init --sample` fills a directory of a person's; its agents work on the sample, several on copies of it."""
    (house.workspace / "readme.txt").unlink()
    house.conch("init", "--workspace", str(house.workspace), "--sample", "tidepool")

    ended = house.run("--cycles", "3", CONCH_MIND__KIND="reflex")
    house.run("--agents", "2", "--cycles", "1", CONCH_MIND__KIND="reflex")

    assert "only reads there" not in ended.said
    assert [(house.workspace / name / "notes" / "kelp.md").exists() for name in (".", "echo-1", "echo-2")] == [True] * 3


def test_several_agents_in_a_persons_directory_begin_with_nothing(house: House) -> None:
    """Each has a directory that Conch made, without files and without goals."""
    house.run("--agents", "2", "--cycles", "2", "--script", house.endless())

    for name in ("echo-1", "echo-2"):
        assert list((house.workspace / name).iterdir()) == []
        assert not (house.home / "agents" / name / "filled.json").exists()
