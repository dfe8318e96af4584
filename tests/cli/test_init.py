"""`conch init`: a home is made once, whole or not at all."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from conch import workspace as workspaces
from conch.cli.common import CommonOptions
from conch.cli.init import init, make_home
from conch.config import Settings
from conch.config.load import load
from conch.errors import HomeError, UsageError
from conch.home import Home


def _conch(*args: str, limit_files: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "conch.cli.main", *args],
        capture_output=True,
        text=True,
        timeout=30,
        preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))) if limit_files else None,
    )


def _everything(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def test_a_new_home_has_settings_goals_and_a_filled_workspace(tmp_path: Path) -> None:
    """The defaults with goals, files that the goals are about, and the record that they were filled in."""
    home = Home(tmp_path / "deep" / "home")

    init(home.path)

    assert load(None, home, {}) == Settings(goals=workspaces.default_goals())
    assert any(home.workspace.iterdir())
    assert workspaces.script_of(home.path, home.path, home.workspace) is not None
    assert home.config_file.stat().st_mode & 0o077 == 0


def test_the_second_time_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not the settings that were edited, not the workspace, and it says so."""
    home = Home(tmp_path / "home")
    init(home.path)
    home.config_file.write_text("seed: 3\n")
    (home.workspace / "README.md").unlink(missing_ok=True)
    before = _everything(home.path)
    capsys.readouterr()

    init(home.path)

    assert _everything(home.path) == before
    assert "nothing was changed" in capsys.readouterr().out


def test_a_directory_of_ones_own_is_taken_as_it_is(tmp_path: Path) -> None:
    """No file is added, no goal is set on it, and the home remembers it."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.txt").write_text("mine")
    home = Home(tmp_path / "home")

    init(home.path, workspace=own)

    assert [entry.name for entry in own.iterdir()] == ["mine.txt"]
    assert load(None, home, {}) == Settings(workspace=str(own))
    assert not home.workspace.exists()
    assert workspaces.script_of(home.path, home.path, own) is None


@pytest.mark.parametrize("there", [True, False])
def test_an_empty_directory_of_ones_own_stays_empty(tmp_path: Path, there: bool) -> None:
    """An empty project is a project: it gets no files and no goals; one that Conch makes is known as made."""
    own, home = tmp_path / "own", Home(tmp_path / "home")
    if there:
        own.mkdir()

    make_home(home, own)

    assert list(own.iterdir()) == []
    assert load(None, home, {}) == Settings(workspace=str(own))
    assert workspaces.script_of(home.path, home.path, own) is None
    assert workspaces.is_made(home, own) is not there


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", workspaces.SAMPLES)
def test_a_sample_is_laid_out_where_it_is_asked_for(tmp_path: Path, name: str, there: bool) -> None:
    """In an empty directory, or one that is not there: its files, its goals, its material, and the record of it."""
    own, home, sample = tmp_path / "own", Home(tmp_path / "home"), workspaces.SAMPLES[name]
    if there:
        own.mkdir()

    init(home.path, workspace=own, sample=name)

    settings = load(None, home, {})
    assert (settings.workspace, settings.goals) == (str(own), sample.goals())
    assert workspaces.script_of(home.path, home.path, own) is not None
    assert workspaces.sample_of(home.path, home.path, own) is sample
    assert workspaces.is_made(home, own)


def test_a_sample_is_laid_out_in_an_empty_directory_alone(tmp_path: Path) -> None:
    """Beside other files it is refused, as it is for a home that is there, and for a name that is none: with nothing
    made."""
    own, home = tmp_path / "own", Home(tmp_path / "home")
    own.mkdir()
    (own / "mine.txt").write_text("mine")

    with pytest.raises(UsageError, match="own is not empty"):
        init(home.path, workspace=own, sample="tidepool")
    with pytest.raises(UsageError, match=r"there is no such sample; .*tidepool"):
        init(home.path, sample="tidepol")
    assert not home.path.exists()
    init(home.path)
    with pytest.raises(UsageError, match="is there already; name a new home"):
        init(home.path, sample="tidepool")


def test_the_directories_of_several_agents_are_filled_where_that_was_asked_for(tmp_path: Path) -> None:
    """In the home's own workspace, and in one of a person's that has the sample; in no other."""
    own, other, home = tmp_path / "own", tmp_path / "other", Home(tmp_path / "home")

    init(home.path, workspace=own, sample="tidepool")

    asked = [workspaces.sample_for_agents(home, place) for place in (home.workspace, own, other)]
    assert asked == [workspaces.TIDEPOOL, workspaces.TIDEPOOL, None]


def test_the_workspace_of_the_environment_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CONCH_WORKSPACE is as good as --workspace."""
    monkeypatch.setenv("CONCH_WORKSPACE", str(tmp_path / "own"))

    init(common=CommonOptions(home=tmp_path / "home"))

    assert (tmp_path / "own").is_dir()
    assert not (tmp_path / "home" / "workspace").exists()


def test_the_home_is_named_once(tmp_path: Path) -> None:
    """DIR and --home together are a usage error."""
    with pytest.raises(UsageError, match="twice"):
        init(tmp_path / "a", common=CommonOptions(home=tmp_path / "b"))


def test_settings_that_were_there_first_are_kept(tmp_path: Path) -> None:
    """A conch.yaml that somebody put there before is theirs; the home is made around it."""
    home = Home(tmp_path)
    home.config_file.write_text("seed: 3\n")

    make_home(home, None)

    assert home.config_file.read_text() == "seed: 3\n"
    assert (home.path / "format").exists()


def test_a_workspace_that_cannot_be_filled_is_left_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written before the disk was full is taken away, so that the next time begins anew."""

    def full(directory: Path, _: workspaces.WorkspaceSample) -> None:
        (directory / "data").mkdir()
        (directory / "data" / "half").write_text("half")
        raise OSError(28, "No space left on device")

    home = Home(tmp_path / "home")
    with monkeypatch.context() as patched:
        patched.setattr(workspaces, "fill", full)
        with pytest.raises(HomeError, match="No space left on device"):
            make_home(home, None)

    assert list(home.workspace.iterdir()) == []
    assert not home.config_file.exists()
    make_home(home, None)
    assert load(None, home, {}).goals


def test_a_workspace_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """With a sentence that names it."""
    (tmp_path / "file").touch()

    with pytest.raises(HomeError, match=r"workspace .*file cannot be filled"):
        make_home(Home(tmp_path / "home"), tmp_path / "file")


def test_the_command_says_what_it_made(tmp_path: Path) -> None:
    """One document with --json, and exit status 0, the second time too."""
    first, second = (_conch("init", str(tmp_path / "h"), "--json") for _ in range(2))

    assert (first.returncode, second.returncode) == (0, 0)
    assert json.loads(first.stdout) == {"schema": "conch.v1.home", "home": str(tmp_path / "h"), "made": True}
    assert json.loads(second.stdout)["made"] is False


def test_a_file_in_the_place_of_the_home_is_a_sentence(tmp_path: Path) -> None:
    """Exit status 1, one line, no traceback."""
    (tmp_path / "file").touch()

    done = _conch("init", str(tmp_path / "file"))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"conch: {tmp_path}/file is a file: name a directory as --home\n"


def test_a_full_disk_is_a_sentence_and_leaves_no_half_home(tmp_path: Path) -> None:
    """Exit status 1; what cannot be written whole is not there, and the next try makes the home."""
    done = _conch("init", str(tmp_path / "h"), limit_files=True)

    assert done.returncode == 1
    assert done.stderr.startswith("conch: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "h" / "conch.yaml").exists()
    assert _conch("init", str(tmp_path / "h")).returncode == 0
    assert load(None, Home(tmp_path / "h"), {}).goals


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that nobody may write: Linux's /proc")
def test_a_home_that_cannot_be_written_is_a_sentence() -> None:
    """Read-only: exit status 1 and the path."""
    done = _conch("init", "/proc/self/home")

    assert done.returncode == 1
    assert done.stderr.startswith("conch: /proc/self/home cannot be written")
