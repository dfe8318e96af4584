"""`conch config`: what is in force, whether a file is right, and the schema for editors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from conch.cli import config
from conch.cli.common import CommonOptions
from conch.config.commented import commented
from conch.workspace import default_goals


def _conch(*args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "conch.cli.main", "config", *args],
        capture_output=True,
        text=True,
        timeout=30,
        env=os.environ | variables,
    )


def test_show_says_every_value_and_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a key, with where it came from."""
    (tmp_path / "conch.yaml").write_text("mind:\n  model: m\n")

    config.show(common=CommonOptions(home=tmp_path))

    lines = capsys.readouterr().out.splitlines()
    assert f'mind.model: "m"  # {tmp_path}/conch.yaml line 2' in lines
    assert "tools.timeout: 10.0  # default" in lines


def test_show_masks_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys, tokens, passwords and what stands before the @ of an address, in both forms."""
    (tmp_path / "conch.yaml").write_text("bus: {url: 'nats://me:hu/s@hush@host:4222'}\n")
    (tmp_path / "token.yaml").write_text("bus: {token: hush}\n")
    (tmp_path / "password.yaml").write_text("bus: {user: me, password: hush}\n")
    monkeypatch.setenv("CONCH_MIND__API_KEY", "hush")
    monkeypatch.setenv("CONCH_STORE__URL", "postgresql://me:hush@host/db?x=1")

    for file in (None, tmp_path / "token.yaml", tmp_path / "password.yaml"):
        config.show(common=CommonOptions(home=tmp_path, config=file))
        config.show(common=CommonOptions(home=tmp_path, config=file, json=True))

    out = capsys.readouterr().out
    assert "hush" not in out
    assert "nats://***@host:4222" in out
    assert "postgresql://***@host/db?x=1" in out


def test_show_as_json_is_one_document(tmp_path: Path) -> None:
    """The settings nested, and an origin for each leaf."""
    (tmp_path / "c.yaml").write_text("seed: 3\n")

    done = _conch("show", "--json", "--config", str(tmp_path / "c.yaml"), "--home", str(tmp_path), CONCH_AGENT="joy")

    shown = json.loads(done.stdout)
    assert shown["schema"] == "conch.v1.config"
    assert shown["file"] == str(tmp_path / "c.yaml")
    assert (shown["settings"]["seed"], shown["settings"]["agent"]) == (3, "joy")
    assert shown["origins"]["agent"] == "environment CONCH_AGENT"
    assert shown["origins"]["mind.kind"] == "default"


def test_a_file_that_is_right_is_said_to_be(tmp_path: Path) -> None:
    """Exit status 0."""
    (tmp_path / "c.yaml").write_text(commented(goals=default_goals()))

    done = _conch("validate", str(tmp_path / "c.yaml"))

    assert (done.returncode, done.stdout) == (
        0,
        f"{tmp_path}/c.yaml is right as it stands; whether what it names is there and fits: conch doctor\n",
    )


def test_a_table_of_weights_without_a_built_in_part_is_wrong(tmp_path: Path) -> None:
    """As a run says it, which would refuse it; what a rule brings cannot be known here."""
    (tmp_path / "c.yaml").write_text("rewards: {weights: {brevity: 1}}\n")

    done = _conch("validate", str(tmp_path / "c.yaml"))

    assert (done.returncode, done.stdout) == (2, "")
    assert "must name every part, it lacks execution, exploration, format, goal, needs" in done.stderr


def test_a_file_that_is_wrong_is_one_sentence(tmp_path: Path) -> None:
    """Exit status 2, the sentence on stderr, nothing on stdout."""
    (tmp_path / "c.yaml").write_text("rewards: {weights: {format: 0.9}}\n")

    done = _conch("validate", str(tmp_path / "c.yaml"), "--json")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"conch: {tmp_path}/c.yaml line 1: rewards cannot be: the weights sum to 0.9, they must sum to 1\n"
    )


def test_no_file_is_right_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a conch.yaml the defaults are in force."""
    config.validate(common=CommonOptions(home=tmp_path))

    assert "the defaults are in force" in capsys.readouterr().out


def test_the_schema_takes_the_file_that_init_writes(capsys: pytest.CaptureFixture[str]) -> None:
    """An editor that follows the schema finds nothing wrong there, and a typo it does."""
    config.schema()
    schema = json.loads(capsys.readouterr().out)

    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert list(validator.iter_errors(yaml.safe_load(commented(goals=default_goals())))) == []
    assert list(validator.iter_errors({"mind": {"modle": "x"}})) != []
