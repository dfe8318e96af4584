"""What is removed from texts: secrets and personal data wherever they stand, and nothing else."""

from __future__ import annotations

import json

import pytest

from conch.config import Masker
from conch.data import redactor

OWN = "hunter2-of-the-settings"
GITHUB = "ghp_" + "a1B2" * 9
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\ndef\n-----END RSA PRIVATE KEY-----"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"the word is {OWN}.", "the word is [secret]."),
        (f"AKIAIOSFODNN7EXAMPLE and {GITHUB}", "[secret] and [secret]"),
        ("https://user:passw0rdX@host/path", "https://user:[secret]@host/path"),
        (f"token={TOKEN}", "token=[secret]"),
        (f"a\n{KEY}\nb", "a\n[secret]\nb"),
        (f"cut off {KEY[:60]}", "cut off [secret]"),
        ("write to bob.smith@example.com or +1 415 555 0134", "write to [EMAIL] or [PHONE]"),
        ("4111 1111 1111 1111, 123-45-6789, 10.0.0.12", "[CREDIT_CARD], [SSN], [IP_ADDRESS]"),
        ("\ud800 alone", "\N{REPLACEMENT CHARACTER} alone"),
    ],
)
def test_a_secret_is_removed(text: str, redacted: str) -> None:
    """A key of the settings or of a known service, a password in an address, an address or a number of a person."""
    assert redactor(Masker([OWN]))(text) == redacted


@pytest.mark.parametrize(
    "wrap", [json.dumps, lambda text: f'TOOL: shell(command="echo {text}")', lambda text: f"{text}," * 3]
)
def test_a_secret_is_found_inside_of_other_text(wrap: object) -> None:
    """As JSON, as an argument of a call, several times in a line that is too long to be kept."""
    assert callable(wrap)
    for secret in (OWN, GITHUB, "bob@example.com"):
        for text in (wrap(secret), f"{'word ' * 200}{wrap(secret)}"):
            assert secret not in redactor(Masker([OWN]))(str(text))


@pytest.mark.parametrize(
    "text",
    [
        "total 1234567890 at 1700000000.123 of 20261123",
        "act 3f2504e0-4f89-11d3-9a0c-0305e82c3301, state 0123456789abcdef",
        'TOOL: filesystem(operation="read", path="notes/2026-11-glossary.md")',
        "version 1.2.3 at 2026-11-23T23:55:01+00:00",
    ],
)
def test_numbers_ids_and_calls_stay(text: str) -> None:
    """What an agent writes all the time is no secret and no person."""
    assert redactor(Masker([OWN]))(text) == text
