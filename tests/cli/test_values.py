"""`conch values`: what holds, a file to edit, a signature over it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.cli import values
from conch.cli.common import CommonOptions
from conch.errors import UsageError
from conch.values import BUILTIN, read_values

if TYPE_CHECKING:
    from tests.cli.conftest import Conch


def test_what_holds_is_shown(common: CommonOptions, capsys: pytest.CaptureFixture[str]) -> None:
    """With the digest that marks carry; for programs as one document."""
    values.show(common=common)
    text = capsys.readouterr().out
    values.show(common=replace(common, json=True))
    told = json.loads(capsys.readouterr().out)

    digest = read_values(BUILTIN).digest
    assert f"those that Conch brings, digest {digest}" in text
    assert "never, history-stays: History that others may have is not rewritten. (shell that says push --force" in text
    assert (told["schema"], told["file"], told["digest"]) == ("conch.v1.values", None, digest)
    assert [one["name"] for one in told["guardrails"]] == ["history-stays", "nothing-wiped", "no-keys-told"]


def test_a_new_file_is_signed_and_then_holds(conch: Conch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed is what the settings need; the secret key is the person's own, outside the home."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file = tmp_path / "values.yaml"
    assert conch("values", "new", str(file)).returncode == 0
    file.write_text(file.read_text().replace("to harm nobody", "to harm nothing"))
    signed = conch("values", "sign", str(file), "--json")
    made = json.loads(signed.stdout)
    named = {"CONCH_VALUES__FILE": str(file), "CONCH_VALUES__KEY": made["key"]}
    for name, value in named.items():
        monkeypatch.setenv(name, value)

    told = json.loads(conch("values", "show", "--json").stdout)

    assert made["secret"] == str(tmp_path / "config" / "conch" / "values.key")
    assert told["digest"] == made["digest"] == read_values(file).digest
    assert "to harm nothing" in told["values"]["benevolence"]
    file.write_text("values: {}")
    refused = conch("values", "show")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "is not what was signed" in refused.stderr


def test_a_file_that_is_there_is_left_alone(common: CommonOptions, tmp_path: Path) -> None:
    """Somebody wrote it."""
    file = tmp_path / "values.yaml"
    file.write_text("mine")

    with pytest.raises(UsageError, match="is there already"):
        values.new(file, common=common)
    assert file.read_text() == "mine"


def test_what_cannot_be_read_is_not_signed(conch: Conch, tmp_path: Path) -> None:
    """It would be refused at the next start."""
    file = tmp_path / "values.yaml"
    file.write_text("guardrails: loud")

    done = conch("values", "sign", str(file), "--key", str(tmp_path / "secret"))

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{file} line 1: guardrails" in done.stderr
    assert os.listdir(tmp_path) == [name for name in os.listdir(tmp_path) if not name.endswith((".sig", "secret"))]
