"""Commands whose stdout has not every character, and stdin that is not UTF-8."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.product import modules

ENCODINGS = ["ascii:strict", "latin-1", "cp1252", "utf-16"]
REPLIES = ("DO_NOTHING: ☃ Łódź “resting” … 火", "DO_NOTHING: café", "REFLECT: \U0001f41a \u0301 \x1b[1m")
COMMANDS = ["cycle list", "cycle show 0", "memory list", "prompt show", "reward list", "mark list", "config show"]
RULE = """\
from conch import rule

@rule(weight=0.1, range=(0.0, 1.0), version="1")
def loud(action) -> float | None:
    \"\"\"Prints ☃.\"\"\"
    print("☃ 火")
    return 1.0
"""


def conch(
    *arguments: str, encoding: str, module: bool = False, data: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """A command to its end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}
    command = [sys.executable, "-m", "conch"] if module else [str(Path(sys.executable).with_name("conch"))]
    return subprocess.run(
        [*command, *arguments],
        input=data,
        capture_output=True,
        env=kept | {"PYTHONIOENCODING": encoding},
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which a mind said what few encodings have."""
    place = tmp_path_factory.mktemp("encodings")
    (place / "script.txt").write_text("".join(f"{reply}\n" for reply in REPLIES), encoding="utf-8")
    (place / "loud.py").write_text(RULE, encoding="utf-8")
    (place / "workspace").mkdir()
    done = conch(
        *("run", "--home", str(place / "home"), "--workspace", str(place / "workspace"), "--cycles", "3"),
        *("--script", str(place / "script.txt"), "--rules", str(place / "loud.py"), "--without", "dashboard"),
        encoding="ascii",
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"could not be scored" not in done.stdout + done.stderr
    assert len([line for line in done.stdout.splitlines() if line.split()[:1] in ([b"0"], [b"1"], [b"2"])]) == 3
    return place / "home"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_replaces_what_its_encoding_lacks(home: Path, command: str) -> None:
    """No line is left out, and nothing else changes."""
    whole = conch(*command.split(), "--home", str(home), encoding="utf-8")
    for encoding in ENCODINGS:
        done = conch(*command.split(), "--home", str(home), encoding=encoding)

        name = encoding.partition(":")[0]
        assert (done.returncode, done.stderr) == (whole.returncode, b"")
        assert done.stdout.decode(name) == whole.stdout.decode().encode(name, "replace").decode(name)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252:xmlcharrefreplace"])
def test_json_is_the_same_in_every_encoding(home: Path, encoding: str) -> None:
    """Escaped where a character may lack, so that no reader gets another one."""
    for command in ("cycle show 0", "config schema"):
        whole = conch(*command.split(), "--home", str(home), "--json", encoding="utf-8").stdout
        done = conch(*command.split(), "--home", str(home), "--json", encoding=encoding).stdout

        assert done.isascii()
        assert [json.loads(line) for line in done.splitlines()] == [json.loads(line) for line in whole.splitlines()]


def test_an_error_handler_that_a_person_names_is_kept(home: Path) -> None:
    """Where no character is an error with it."""
    done = conch("cycle", "show", "0", "--home", str(home), encoding="ascii:backslashreplace")

    assert rb"\u2603" in done.stdout


def test_a_sentence_on_stderr_is_written_in_every_encoding() -> None:
    """With its exit code."""
    done = conch("nonsense-☃", encoding="ascii")

    assert done.returncode == 2
    assert done.stderr.startswith(b"conch: ")
    assert b"Traceback" not in done.stderr


def test_a_reply_from_stdin_that_cannot_be_read_is_refused(home: Path) -> None:
    """Nothing is trained on that nobody wrote."""
    done = conch(*("review", "edit", "0" * 12, "--file", "-", "--home", str(home)), encoding="utf-8", data=b"caf\xe9\n")

    assert done.returncode == 2
    assert b"cannot be read as text" in done.stderr


def test_the_package_is_the_command(home: Path) -> None:
    """`python -m conch` does what `conch` does."""
    listed = [conch("cycle", "list", "--home", str(home), encoding="utf-8", module=module) for module in (False, True)]

    assert listed[0].returncode == listed[1].returncode == 0
    assert listed[0].stdout == listed[1].stdout


def test_every_text_file_of_the_product_names_its_encoding() -> None:
    """The locale's may have no place for what is written, and reads something else."""
    nameless = []
    for module in modules():
        for call in (node for node in ast.walk(module.tree) if isinstance(node, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            texts = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            is_method = isinstance(call.func, ast.Attribute) and name in ("read_text", "write_text")
            opens = is_method or (name == "fdopen" and texts) or ast.unparse(call.func) == "open"
            is_clear = "utf-8" in texts or any(re.fullmatch(r"[rwax]\+?b\+?", mode) for mode in texts)
            if opens and not is_clear and not any(word.arg == "encoding" for word in call.keywords):
                nameless.append(f"{module.name}: {ast.unparse(call)}")

    assert nameless == [
        "conch.cli.streams: open(number, mode, closefd=False)",  # a stream that was closed
        "conch.config.environment: distribution('conch-agent').read_text('direct_url.json')",  # knows by itself
    ]
