"""Secrets of the settings and of the environment are found in texts and events, and masked."""

from __future__ import annotations

import json
import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import NO_SECRETS, Masker, Settings
from conch.secrets import HIDDEN
from conch_schemas import Action, ActionDecided, MessageReceived, PromptMessage, encode

KEY = "a key without a form"
ODD = 'p"a\\ss\tw\u00f6rd'


def message(text: str) -> MessageReceived:
    return MessageReceived(id="m", source="conch/echo/u", agent="echo", text=text, sender="user")


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("OPENAI_API_KEY", True), ("GITHUB_TOKEN", True), ("AWS_SECRET_ACCESS_KEY", True), ("PGPASSWORD", True),
        ("DB_PASSWORD", True), ("MY_SECRET", True), ("APIKEY", True), ("GITHUB_PAT", True), ("db_pass", True),
        ("MONKEY", False), ("KEYBOARD", False), ("PATH", False), ("SSH_KEY_FILE", False), ("TOKENIZER_PATH", False),
    ],
)  # fmt: skip
def test_variables_whose_names_look_like_keys_are_secrets(name: str, is_secret: bool) -> None:
    """By their names alone: their values look like anything."""
    masked = Masker.of(None, {name: KEY}).text(f"it is {KEY}!")

    assert masked == (f"it is {HIDDEN}!" if is_secret else f"it is {KEY}!")


def test_a_value_of_less_than_8_characters_is_no_secret() -> None:
    """It would stand in many texts."""
    assert Masker.of(None, {"A_KEY": "1234567", "B_KEY": "12345678"}).text("1234567 12345678") == f"1234567 {HIDDEN}"


def test_the_secrets_of_the_settings_are_known_wherever_they_stand() -> None:
    """Keys, tokens, headers, the keys of fallbacks and judges, and passwords in addresses."""
    settings = Settings.model_validate(
        {
            "mind": {"kind": "openai", "api_key": "key-of-mind", "fallbacks": [{"api_key": "key-of-fallback"}]},
            "rewards": {"judges": {"tone": {"rubric": "tone.md", "api_key": "key-of-judge"}}},
            "otel": {"endpoint": "http://127.0.0.1:4318", "headers": {"Authorization": "header-of-otel"}},
            "bus": {"url": "nats://me:word%40of-address@127.0.0.1:4222"},
            "alerts": {"webhook": "https://example.org/x", "secret": "secret-of-the-webhook-24"},
        }
    )
    text = "key-of-mind key-of-fallback key-of-judge header-of-otel word@of-address secret-of-the-webhook-24"

    assert Masker.of(settings, {}).text(text) == " ".join([HIDDEN] * 6)


def test_the_longer_of_two_secrets_goes_first() -> None:
    """One that contains another leaves no piece of itself."""
    assert Masker(["password", "password-2026"]).text("password-2026 password") == f"{HIDDEN} {HIDDEN}"


def test_a_secret_of_several_lines_is_masked_line_by_line() -> None:
    """A key is often seen in part, or with other line ends."""
    key = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA\nw5gkq0lkJd82hf7\n-----END KEY-----"
    masker = Masker([key])

    assert masker.text("a w5gkq0lkJd82hf7 b") == f"a {HIDDEN} b"
    assert masker.text("-----BEGIN KEY-----") == "-----BEGIN KEY-----"
    assert "MIIE" not in masker.text(f"x {key} y")


@given(st.text(min_size=8, max_size=30), st.text(max_size=50), st.text(max_size=50))
def test_no_secret_survives_in_a_text_or_an_event(secret: str, before: str, after: str) -> None:
    """As it is, and as JSON has it; other texts are left as they are."""
    masker = Masker([secret])
    known = [line for line in (secret.strip(), *secret.splitlines()) if len(line.strip()) >= 8]
    text = masker.text(f"{before}{secret}{after}")
    said = encode(masker.event(message(f"{before}{secret}{after}".replace("\0", "")))).decode()
    for one in known:
        assert one.strip() in HIDDEN or one.strip() not in text
        if "\0" not in secret:
            assert json.dumps(one.strip())[1:-1] not in HIDDEN + said or one.strip() in HIDDEN + before + after


def test_an_event_is_masked_in_all_its_fields() -> None:
    """Messages of the prompt, raw reply, arguments and their names; what is not data stays."""
    action = Action(kind="TOOL", valid=True, tool="shell", args={"command": f"curl -H {KEY}", f"x{KEY}": [{"y": ODD}]})
    decided = ActionDecided(
        id=KEY, source="conch/echo/u", agent="echo", cycle=1, action_id="a",
        messages=(PromptMessage(role="user", content=f"use {KEY}"),), raw=f"{ODD} {KEY}", raw_length=1, raw_sha256="",
        action=action, model="m", finish_reason="stop", ms=0.0, usage={"input_tokens": 1, "output_tokens": 1},
    )  # fmt: skip
    masked = Masker([KEY, ODD]).event(decided)

    data = encode(masked).decode()
    assert data.count(KEY) == 1  # the id
    assert "ss\\tw" not in data
    assert masked.action.args == {"command": f"curl -H {HIDDEN}", f"x{HIDDEN}": [{"y": HIDDEN}]}
    assert masked.raw == f"{HIDDEN} {HIDDEN}"


def test_a_secret_that_shows_by_itself_is_masked_in_an_event() -> None:
    """In a text, and as the value of an argument that is named so; digests and counts stay."""
    action = Action(kind="TOOL", valid=True, tool="x", args={"db_password": "hunter2-x9", "max_tokens": "4096"})
    decided = ActionDecided(
        id="a", source="conch/echo/u", agent="echo", cycle=1, action_id="a", raw="API_KEY=4eC39HqLyjWDarjtT1zd",
        messages=(PromptMessage(role="user", content="password: hunter2-x9\n" + "so it goes " * 30),), raw_length=1,
        raw_sha256="0" * 64, action=action, model="m", finish_reason="stop", ms=0.0,
        decoding={"engine": "e", "model": "m", "state_key": "9f86d081884c7d659a2f" * 3},
    )  # fmt: skip
    masked = NO_SECRETS.event(decided)

    assert masked.raw == f"API_KEY={HIDDEN}"
    assert masked.messages[0].content.startswith(f"password: {HIDDEN}\nso it goes")
    assert masked.action.args == {"db_password": HIDDEN, "max_tokens": "4096"}
    assert masked.decoding == decided.decoding
    assert NO_SECRETS.event(masked) is masked


def test_an_event_without_a_secret_is_the_same_object() -> None:
    """Nothing is made anew for it."""
    event = message("nothing to hide")

    assert Masker([KEY]).event(event) is event


def test_a_password_that_is_a_word_of_the_contract_breaks_no_event() -> None:
    """A field that holds one of few words keeps it; a text with the word in it is masked."""
    event = ActionDecided(
        id="a", source="conch/echo/u", agent="echo", cycle=1, action_id="a", messages=(), raw="my DO_NOTHING now",
        raw_length=1, raw_sha256="", action=Action(kind="DO_NOTHING", valid=True), model="m", finish_reason="stop",
        ms=0.0, usage={"input_tokens": 1, "output_tokens": 1},
        decoding={"engine": "my assistant", "model": "m", "constraint": "grammar"},
    )  # fmt: skip
    masked = Masker(["grammar", "assistant"]).event(event)
    assert masked.decoding is not None
    assert masked.decoding.engine == f"my {HIDDEN}"

    asked = event.model_copy(update={"messages": (PromptMessage(role="assistant", content="the assistant"),)})
    assert Masker(["assistant"]).event(asked).messages == (
        PromptMessage(role="assistant", content=f"the {HIDDEN}"),
    )  # fmt: skip


def test_masking_8_kb_is_cheap() -> None:
    """20 secrets, of which none is there: well below 50 us, in the best of some rounds on a busy machine."""
    masker = Masker([f"{place}-{KEY}" for place in range(20)])
    text = "the tide comes and goes, key by key; " * 220
    assert len(text) > 8000

    assert min(timeit.repeat(lambda: masker.text(text), number=20, repeat=30)) / 20 < 50e-6


@given(st.text(alphabet="sk-ey", max_size=12), st.integers(0, 6))
def test_a_text_that_grows_never_shows_a_part_of_a_secret(before: str, cut: int) -> None:
    """Its end may be the begin of one: it is left out until it is known. A secret that came whole is hidden."""
    masker = Masker([KEY])

    assert KEY[: cut + 1] not in masker.growing(f"it is {KEY[: cut + 1]}").removeprefix("it is ")
    assert masker.growing(f"{before} {KEY} end.") == f"{masker.text(before)} {HIDDEN} end."
    assert masker.growing("no secret!") == "no secret!"


@pytest.mark.parametrize(
    "secret", [f"{KEY}\nshort\n{KEY[::-1]}", f"{KEY}-of-two", "a-word-with-a", 'quoted "ä" \\ key']
)
def test_what_grows_is_a_beginning_of_the_whole(secret: str) -> None:
    """Also of a secret that begins with another one, of several lines, and in JSON: no piece of it is shown for now."""
    masker = Masker([KEY, secret])

    for text in (f"it is {secret}{secret} there", json.dumps({"key": secret, "more": KEY})):
        assert [one for one in range(len(text)) if not masker.text(text).startswith(masker.growing(text[:one]))] == []
