"""Texts that are redacted together: each as it is alone."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from conch.config import Masker
from conch.data import redactor

OWN = "hunter2-of-the-settings"
KEYS = (
    "ghp_" + "a1B2" * 9,
    "AKIAIOSFODNN7EXAMPLE",
    "https://u:passw0rdX@h",
    "xoxb-123456789012-abcdefgh",
    "AccountKey=",
)
PEOPLE = ("bob@example.com", "+1 415 555 0134", "10.0.0.12", "4111 1111 1111 1111", "123-45-6789")
PRIVATE = ("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----")
SCRIPTS = ("é — ſ", "K", "\ud800", "\0", "٣٣٣٣٣٣٣")
PLAIN = ("kelp", "notes/tide.md", "0.31", "12 of 40...", " ", "\n", "")
PIECES = st.sampled_from((OWN, *KEYS, *PEOPLE, *PRIVATE, *SCRIPTS, *PLAIN)) | st.text(max_size=3)
HALVES = (*KEYS, *PEOPLE, OWN, "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----")
REDACT = redactor(Masker([OWN, "two\nlines-of-a-secret"]))


@given(st.lists(st.lists(PIECES, max_size=5).map("".join), max_size=12))
@example(["two", "lines-of-a-secret", "two\nlines-of-a-secret"])
@example(["kelp", KEYS[0], "", "é", PRIVATE[0], "cut off", PRIVATE[1]])
def test_many_texts_are_redacted_as_each_is_alone(texts: list[str]) -> None:
    """Whatever stands beside a text hides no secret of it, and makes none of it."""
    assert REDACT.all(texts) == [REDACT(text) for text in texts]


@given(st.sampled_from(HALVES), st.integers(1, 60))
def test_halves_of_a_secret_in_two_texts_are_none(secret: str, at: int) -> None:
    """What two neighbours make up together is looked at in neither; the whole behind them is."""
    halves = [secret[:at], secret[at:]]

    found = REDACT.all([*halves, secret])

    assert found[:2] == [REDACT(half) for half in halves]
    assert found[2] == REDACT(secret) != secret or secret == "AccountKey="


@given(st.integers(0, 300), st.sampled_from(HALVES[:4]))
def test_a_secret_is_found_in_any_of_many_texts(place: int, secret: str) -> None:
    """The first, the last, and each between, among texts that hold nothing."""
    texts = [f"kelp and tide {number}" for number in range(300)]
    texts.insert(place, f"so {secret} it is")

    found = REDACT.all(texts)

    assert secret not in found[place]
    assert found[:place] + found[place + 1 :] == texts[:place] + texts[place + 1 :]
