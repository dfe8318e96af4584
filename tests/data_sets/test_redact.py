"""What is removed from texts: secrets and personal data wherever they stand, and nothing else."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conch.config import Masker
from conch.data import redactor
from conch.data.redact import is_plain, key_patterns, keys_in

OWN = "hunter2-of-the-settings"
GITHUB = "ghp_" + "a1B2" * 9
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\ndef\n-----END RSA PRIVATE KEY-----"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"the word is {OWN}.", "the word is [secret hidden by Conch]."),
        (f"AKIAIOSFODNN7EXAMPLE and {GITHUB}", "[secret hidden by Conch] and [secret hidden by Conch]"),
        ("https://user:passw0rdX@host/path", "https://user:[secret hidden by Conch]@host/path"),
        (f"token={TOKEN}", "token=[secret hidden by Conch]"),
        (f"a\n{KEY}\nb", "a\n[secret hidden by Conch]\nb"),
        (f"cut off {KEY[:60]}", "cut off [secret hidden by Conch]"),
        ("write to bob.smith@example.com or +1 415 555 0134", "write to [EMAIL] or [PHONE]"),
        ("4111 1111 1111 1111, 123-45-6789, 10.0.0.12", "[CREDIT_CARD], [SSN], [IP_ADDRESS]"),
        ("\ud800 alone", "\N{REPLACEMENT CHARACTER} alone"),
    ],
)
def test_a_secret_is_removed(text: str, redacted: str) -> None:
    """A key of the settings or of a known service, a password in an address, an address or a number of a person."""
    assert redactor(Masker([OWN]))(text) == redacted


PATTERNS = [one.pattern for one in key_patterns()]
BESIDE = st.text(st.sampled_from("aZ09_-.:/=\"' \n+(@ſKé"), max_size=12)


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
@settings(max_examples=10)
@given(data=st.data())
def test_a_key_of_each_service_is_searched_for(pattern: re.Pattern[str], data: st.DataObject) -> None:
    """Whatever a pattern of detect-secrets matches has what the pattern is said to need: no key passes as plain."""
    of_ascii = re.compile(pattern.pattern, pattern.flags & ~re.UNICODE | re.ASCII)
    key = data.draw(st.from_regex(of_ascii) | st.from_regex(pattern))
    text = data.draw(BESIDE) + key + data.draw(BESIDE)

    for line in text.split("\n"):
        found = {one for one in PATTERNS if one.search(line)}
        assert found <= set(keys_in(line))
        assert not (found and is_plain(text))


@given(st.text(st.sampled_from("0189.@ ().+:-ab\n٣"), max_size=40))
@example("at 10.20.30.4")
@example("1 (2) 3.4+5:6-7")
def test_personal_data_is_searched_for(text: str) -> None:
    """A text passes as plain only where none of its lines may hold an address or a number of a person."""
    assert not (is_plain(text) and re.search(r"@|(?:\d[ ().+:-]{0,2}){7}|\d\.\d+\.\d+\.", text))


def test_most_texts_of_an_agent_pass_as_plain() -> None:
    """A call, a thought with a few numbers and a measure cost no pattern: the export stays fast."""
    for text in ('TOOL: filesystem(operation="read", path="notes/kelp-reed.md")', "curiosity 0.31, 12 of 40 read..."):
        assert is_plain(text)


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


@pytest.mark.parametrize(
    ("secret", "instead"),
    [
        (GITHUB, "[secret hidden by Conch]"),
        (TOKEN, "[secret hidden by Conch]"),
        ("bob.smith@example.com", "[EMAIL]"),
        ("+1 415 555 0134", "[PHONE]"),
    ],
)
def test_a_secret_is_removed_wherever_it_stands_in_a_long_line(secret: str, instead: str) -> None:
    """Also where the pieces meet in which such a line is looked at."""
    redact = redactor(Masker([OWN]))
    for place in (0, 1480, 1960, 1990, 2000, 2480, 3985, 6000):
        before, behind = "so it is "[: place % 9] + "so it is " * (place // 9), " and so on" * 300

        assert redact(f"{before} {secret}{behind}") == f"{before} {instead}{behind}"


@pytest.mark.parametrize("part", ["1.2.3.", "eyJ", '{"a": "b@c.de", "//": "http://x.y/z"}, ', KEY[:31]])
def test_a_text_takes_its_time_by_its_length(part: str) -> None:
    """Whatever the libraries' patterns take for a secret's beginning again and again: seconds for a million letters,
    where the square of the length would take minutes."""
    redact, began = redactor(Masker([OWN])), time.process_time()

    redact(part * (200_000 // len(part)))

    assert time.process_time() - began < 15
