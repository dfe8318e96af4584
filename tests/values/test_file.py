"""The file of the values: its signature, and what is said of one that cannot be taken."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from conch.config import Settings
from conch.config.model import ValuesSettings
from conch.errors import ConfigError, UsageError
from conch.values import BUILTIN, Values, in_force, read_values
from conch.values.signing import sign, signature_of

TEXT = """\
values:
  honesty: You say what is so.
guardrails:
  - {name: quiet, why: Nothing is said., skills: [reply]}
"""
OTHER = "A" * 43 + "="


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of values."""
    made = tmp_path / "values.yaml"
    made.write_text(TEXT)
    return made


@pytest.fixture
def signed(file: Path, tmp_path: Path) -> ValuesSettings:
    """The settings that name it, signed."""
    return ValuesSettings(file=str(file), key=sign(file, tmp_path / "keys" / "secret"))


def test_without_a_file_those_that_come_along_are_in_force() -> None:
    """They need no signature."""
    assert in_force(ValuesSettings()) == read_values(BUILTIN)


def test_a_signed_file_is_in_force_under_its_own_digest(signed: ValuesSettings) -> None:
    """The SHA-256 of its bytes."""
    values = in_force(signed)

    assert values.values == {"honesty": "You say what is so."}
    assert [one.name for one in values.guardrails] == ["quiet"]
    assert values.digest == hashlib.sha256(TEXT.encode()).hexdigest()


def test_a_single_byte_that_was_changed_is_refused(signed: ValuesSettings, file: Path) -> None:
    """With what to do."""
    file.write_text(TEXT.replace("so.", "so!"))

    with pytest.raises(ConfigError, match=r"values.yaml is not what was signed .* conch values sign"):
        in_force(signed)


def test_another_key_is_refused(signed: ValuesSettings, file: Path, tmp_path: Path) -> None:
    """Who signs it anew with a key of their own is not believed."""
    other = sign(file, tmp_path / "another")

    assert other != signed.key
    with pytest.raises(ConfigError, match="is not what was signed"):
        in_force(signed)


@pytest.mark.parametrize("content", [b"", b"no base64!", b"AAAA", b"\xff" * 2000])
def test_what_is_no_signature_is_refused(signed: ValuesSettings, file: Path, content: bytes) -> None:
    """In the same sentence."""
    signature_of(file).write_bytes(content)

    with pytest.raises(ConfigError, match="is not what was signed"):
        in_force(signed)


def test_a_signature_that_is_not_there_is_said(signed: ValuesSettings, file: Path) -> None:
    """With how it is made."""
    signature_of(file).unlink()

    with pytest.raises(ConfigError, match=r"values.yaml.sig cannot be read \(No such file .* conch values sign"):
        in_force(signed)


def test_signing_twice_uses_the_same_key(file: Path, tmp_path: Path) -> None:
    """Which only its owner may read."""
    secret = tmp_path / "secret"

    assert sign(file, secret) == sign(file, secret)
    assert os.stat(secret).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"AAAA", b"no base64!"])
def test_what_is_no_secret_key_is_left_alone(file: Path, tmp_path: Path, content: bytes) -> None:
    """It may be somebody's: nothing is written over it."""
    secret = tmp_path / "secret"
    secret.write_bytes(content)

    with pytest.raises(UsageError, match="holds no secret key"):
        sign(file, secret)
    assert secret.read_bytes() == content
    assert not signature_of(file).exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "must hold values and guardrails"),
        (b"- a\n", "must hold values and guardrails"),
        (b"\xff\xfe", "no text in UTF-8"),
        (b"values: {a: b\n", "values.yaml line"),
        (b"valeus: {}\n", "line 1: valeus is none of its keys"),
        (b"digest: abc\n", "line 1: digest is none of its keys"),
        (b"guardrails:\n  - name: Loud\n    why: x\n    skills: [a]\n", r"line 2: guardrails\[0\].name"),
        (b"guardrails:\n  - name: loud\n    why: x\n    skills: []\n", r"line 4: guardrails\[0\].skills"),
        (b"guardrails:\n  - name: loud\n    skills: [a]\n", r"line 2: guardrails\[0\].why"),
        (b"values: {honesty: }\nguardrails: x\n", "line 2: guardrails"),
        (b"#" * 70_000, "is longer than 64 KiB"),
    ],
)
def test_what_cannot_be_taken_is_one_sentence(file: Path, content: bytes, said: str) -> None:
    """With the line, where there is one."""
    file.write_bytes(content)

    with pytest.raises(ConfigError, match=said) as refused:
        read_values(file)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    """So is a directory."""
    with pytest.raises(ConfigError, match=r"cannot be read \(No such file or directory\)"):
        read_values(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=r"cannot be read \(Is a directory\)"):
        read_values(tmp_path)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"file": "values.yaml"}, "go together"),
        ({"key": OTHER}, "go together"),
        ({"file": "values.yaml", "key": "AAAA"}, "32 bytes in base64"),
        ({"file": "values.yaml", "key": "é"}, "32 bytes in base64"),
    ],
)
def test_settings_that_do_not_fit_are_refused(said: dict[str, str], why: str) -> None:
    """A file without a key could be anybody's."""
    with pytest.raises(ValueError, match=why):
        Settings.model_validate({"values": said})


def test_values_survive_the_way_to_a_process(signed: ValuesSettings) -> None:
    """As JSON."""
    values = in_force(signed)
    assert Values.model_validate(values.model_dump(mode="json")) == values
