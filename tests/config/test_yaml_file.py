"""conch.yaml: what is read, and what is refused with its line."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conch.config import Settings
from conch.config.load import load
from conch.errors import ConfigError
from conch.home import Home

Read = Callable[..., Settings]
Refusal = Callable[..., str]


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "---\n", "~\n", "mind:\nbus:\n  keep:\n", "\ufeff", "{}"])
def test_a_file_that_says_nothing_gives_the_defaults(read: Read, text: str) -> None:
    """Empty, comments alone, sections without keys: the defaults."""
    assert read(text) == Settings()


def test_a_number_with_an_exponent_alone_is_a_number(read: Read) -> None:
    """`1e-5`, which YAML 1.1 calls text, is a number where one is wanted."""
    assert read("tools: {timeout: 1e-5}").tools.timeout == 1e-5


def test_off_is_the_word_off(read: Read) -> None:
    """`sandbox: off`, which YAML 1.1 calls False, is the word that the setting takes."""
    assert read("tools:\n  sandbox: off\n").tools.sandbox == "off"


@pytest.mark.parametrize(("word", "means"), [("no", False), ("off", False), ("false", False), ("on", True)])
def test_a_yes_or_no_may_be_said_in_every_way(read: Read, word: str, means: bool) -> None:
    """Where a boolean is wanted, no and off are one."""
    assert read(f"rewards: {{abstain_when_constrained: {word}}}").rewards.abstain_when_constrained is means


@pytest.mark.parametrize("name", ["no", "3.5", "2024-01-01", "0x10", "12:30", "true", "1e3"])
def test_a_name_is_a_name_whatever_it_looks_like(read: Read, name: str) -> None:
    """Text needs no quotes for looking like a boolean, a number, a date or a time."""
    assert read(f"mind: {{model: {name}}}").mind.model == name


def test_quotes_make_text_of_null(read: Read) -> None:
    """A plain null is no value, a quoted one is the word."""
    assert read("mind: {model: null}").mind.model == "default"
    assert read("mind: {model: 'null'}").mind.model == "null"


def test_a_key_twice_is_refused_with_both_lines(refusal: Refusal) -> None:
    """The later of two equal keys does not win in silence, not even over an empty one."""
    assert refusal("mind:\n  model: a\nbus:\nmind:\n  model: b\n") == "line 4: mind stands there twice (before: line 1)"
    assert "line 2: seed stands there twice" in refusal("seed:\nseed: 3\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("mind:\n\tmodel: a\n", "line 2: there is a tab"),
        ("agent: echo\nmind: a: b\n", "line 2: a second colon"),
        ("cycle: [1\n", "line 2: expected ',' or ']', but got '<stream end>'"),
        ("agent: 'echo\n", "line 2: found unexpected end of stream"),
        ("- agent\n", "must hold settings (key: value), but holds a list"),
        ("agent\n", "must hold settings (key: value), but holds a single value"),
        ("agent: a\n---\nagent: b\n", "line 2: a second document"),
        ("agent: a\x00b\n", "line 1: there is a control character"),
        ("? [a, b]\n: c\n", "line 1: a key must be one word"),
        ("agent: !!python/object:os.system x\n", "line 1: tags (!) are not taken"),
        ("seed: 1\nagent: *x\n", "line 2: anchors (&, *) are not taken"),
        ("agent: &x\n", "line 1: anchors (&, *) are not taken"),
        (b"seed: 1\nagent: caf\xe9\n", "line 2: this is not UTF-8"),
        ("seed: 1\n".encode("utf-16"), "line 1: this is not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(refusal: Refusal, text: str | bytes, sentence: str) -> None:
    """Each way in which a file can be broken has its sentence."""
    assert refusal(text).startswith(sentence)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 500_000,
        "a: " + "{b: " * 100_000,
        "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
        "a: &a\n  b: *a\n",
        "goals: [" + "x," * 200_000 + "]",
        "x" * (1024 * 1024 + 1),
    ],
)
def test_a_bomb_is_refused_before_it_goes_off(refusal: Refusal, text: str) -> None:
    """Depth, number, aliases and size are bounded, and the bound is met at once."""
    began = time.monotonic()

    assert "\n" not in refusal(text)

    assert time.monotonic() - began < 5


def test_a_file_that_was_named_must_be_there(home: Home) -> None:
    """A missing file is no empty file when somebody named it."""
    with pytest.raises(ConfigError, match=r"none\.yaml cannot be read: No such file"):
        load(home.path / "none.yaml", home, {})


def test_a_file_named_by_the_environment_is_read(home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CONCH_CONFIG names the file where the command line does not."""
    (tmp_path / "other.yaml").write_text("seed: 5")
    (tmp_path / "third.yaml").write_text("seed: 6")
    monkeypatch.setenv("CONCH_CONFIG", str(tmp_path / "other.yaml"))

    assert load(None, home, {}).seed == 5
    assert load(tmp_path / "third.yaml", home, {}).seed == 6


def test_a_directory_is_no_file(home: Home) -> None:
    """What cannot be opened is a sentence, not a traceback."""
    home.config_file.mkdir()

    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(None, home, {})
