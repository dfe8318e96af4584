"""`conch completion`: what it writes, and what bash completes with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conch.cli.main import COMMANDS


def conch(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command whose person's own directory is `home`; it is called in no shell that can be told."""
    return subprocess.run(
        [sys.executable, "-m", "conch.cli.main", "completion", *words],
        env={"HOME": str(home), "PATH": "/nowhere"} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def completed(home: Path, line: str) -> set[str]:
    """What bash offers at the end of this line, once it has begun with the files of `home`."""
    script = """
. "$HOME/.bashrc"
read -ra COMP_WORDS <<< "$1"
[[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$1 COMP_POINT=${#1}
call=$(complete -p conch)
call=${call#* -F }
${call%% *} conch
printf '%s\\n' "${COMPREPLY[@]}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", line], env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


def test_bash_completes_nouns_verbs_and_options(tmp_path: Path) -> None:
    """After an install, in a new shell: every command, the commands of a noun, the options of one."""
    (tmp_path / ".bashrc").write_text("alias ll='ls -l'")
    done = conch(tmp_path, "install", "--shell", "bash")

    assert done.returncode == 0, done.stderr
    assert completed(tmp_path, "conch ") >= COMMANDS.keys()
    assert completed(tmp_path, "conch rew") == {"reward"}
    assert completed(tmp_path, "conch dlq ") >= {"list", "show", "retry", "drop"}
    assert "--cycles" in completed(tmp_path, "conch run --cy")


@pytest.mark.parametrize(
    ("shell", "script", "begins"),
    [
        ("bash", ".local/share/bash-completion/completions/conch", ".bashrc"),
        ("zsh", ".zsh/completions/_cyclopts_conch", ".zshrc"),
        ("fish", ".config/fish/completions/conch.fish", None),
    ],
)
def test_it_says_what_it_wrote_and_the_second_time_is_once(
    tmp_path: Path, shell: str, script: str, begins: str | None
) -> None:
    """The script, and the file that the shell begins with, where it needs a line there; what stood in it stays."""
    if begins is not None:
        (tmp_path / begins).write_text("alias ll='ls -l'\n")
    first = conch(tmp_path, "install", "--shell", shell)
    files = {file: file.read_text() for file in tmp_path.rglob("*") if file.is_file()}
    second = conch(tmp_path, "install", "--shell", shell)

    loads = f", and the line that loads it into {tmp_path / begins}" if begins is not None else ""
    holds = f"it holds in new shells: exec {shell}\n"
    assert first.stdout == f"wrote {tmp_path / script}{loads}\n{holds}"
    assert second.stdout == f"wrote {tmp_path / script}\n{holds}"
    assert files.keys() == {tmp_path / name for name in (script, begins) if name is not None}
    assert files == {file: file.read_text() for file in files}
    assert begins is None or "alias ll='ls -l'\n" in files[tmp_path / begins]


def test_show_prints_the_script_that_install_writes(tmp_path: Path) -> None:
    """And writes nothing. The shell is that of $SHELL, where none is named."""
    shown = conch(tmp_path, "show", SHELL="/bin/bash")
    assert list(tmp_path.iterdir()) == []
    conch(tmp_path, "install", "--shell", "bash")

    assert shown.stdout == (tmp_path / ".local/share/bash-completion/completions/conch").read_text()


def test_what_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    """A shell that is not known, and a file that cannot be written."""
    unknown = conch(tmp_path, "install", SHELL="/bin/tcsh")
    (tmp_path / ".config").write_text("")
    barred = conch(tmp_path, "install", "--shell", "fish")

    assert (unknown.returncode, unknown.stderr) == (
        2,
        "conch: which shell this is cannot be seen: name it (--shell bash, zsh or fish)\n",
    )
    assert barred.returncode == 1
    assert barred.stderr.startswith(f"conch: {tmp_path / '.config'}")
    assert barred.stderr.count("\n") == 1
