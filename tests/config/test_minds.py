"""Several minds in the settings: what a part takes from `mind`, and what does not fit together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import MindSettings, OneMindSettings, Settings
from conch.config import read as read_settings
from conch.errors import UsageError
from conch.home import Home
from conch.trusted import refuse_writable

Read = Callable[..., Settings]
Refusal = Callable[..., str]

MIND = {
    "kind": "openai",
    "base_url": "http://a/v1",
    "model": "m",
    "api_key": "sk-a",
    "temperature": 0.1,
    "context_window": 4096,
    "price": {"input": 1, "output": 2},
    "currency": "EUR",
}


def minds(**parts: Any) -> MindSettings:
    return MindSettings.model_validate(MIND | parts)


def test_a_part_takes_what_it_does_not_name() -> None:
    """The same model decides more coldly: address, key, window and price are the same."""
    mind = minds(decide={"temperature": 0})

    assert mind.deciding == mind.itself.model_copy(update={"temperature": 0.0})
    assert mind.thinking == mind.itself
    assert list(mind.blocks()) == ["mind.decide", "mind"]


@pytest.mark.parametrize(
    ("part", "key", "window", "priced"),
    [
        ({"model": "other"}, "sk-a", None, False),
        ({"base_url": "http://b/v1"}, None, None, False),
        ({"base_url": "http://b/v1", "api_key": "sk-b", "context_window": 999}, "sk-b", 999, False),
        ({"base_url": "http://a/v1", "model": "m", "top": None}, "sk-a", 4096, True),
        ({"kind": "local"}, "sk-a", None, False),
        ({"kind": "local", "base_url": "http://b/v1"}, None, None, False),
    ],
)
def test_a_key_goes_to_no_other_address_and_a_price_to_no_other_model(
    part: dict[str, Any], key: str | None, window: int | None, priced: bool
) -> None:
    """A part that names another address has the key that it names; one that names another model has no price of it."""
    part.pop("top", None)
    [fallback] = minds(fallbacks=[part | {"temperature": 1}]).fallbacks

    assert (fallback.api_key.get_secret_value() if fallback.api_key else None) == key
    assert (fallback.context_window, fallback.price is not None) == (window, priced)


def test_a_part_of_another_kind_has_defaults_of_its_own() -> None:
    """A model's name and limits say nothing of the embedded mind."""
    [fallback] = minds(fallbacks=[{"kind": "reflex"}]).fallbacks

    assert (fallback.model, fallback.temperature) == ("default", OneMindSettings().temperature)


@given(
    st.fixed_dictionaries({}, optional={
        name: st.fixed_dictionaries({}, optional={
            "kind": st.just("openai"), "model": st.sampled_from("mn"),
            "base_url": st.sampled_from(("http://a/v1", "http://b/v1")), "timeout": st.just(7),
        }) for name in ("think", "decide")
    })
)  # fmt: skip
def test_settings_that_were_written_out_are_the_same_when_they_are_read(parts: dict[str, Any]) -> None:
    """The processes of a run get them so: what a part took is in it, and nothing is taken twice."""
    mind = minds(**parts)
    told = mind.model_dump()

    assert MindSettings.model_validate(told) == mind
    assert next(iter(mind.blocks().values())) == mind.deciding


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{kind: openai, fallbacks: [{}]}", "line 1: mind cannot be: mind.fallbacks[0] is asked already"),
        ("{kind: openai, fallbacks: [{kind: reflex}, {kind: reflex}]}", "mind.fallbacks[1] is asked already"),
        ("{kind: openai, fallbacks: [{kind: scripted}]}", "mind.fallbacks[0] is a script"),
        ("{kind: scripted, decide: {kind: reflex}}", "a script thinks only where it decides"),
        ("{kind: reflex, think: {model: random}}", "an agent has one reflex mind"),
        ("{kind: local, model: a, decide: {model: b}}", "a run serves one local model"),
        ("{kind: openai, price: {input: 1, output: 2}}", "mind.price needs mind.currency"),
        ("{fallbacks: [{kind: openai, price: {input: 1, output: 2}}]}", "mind.fallbacks[0].price needs mind.currency"),
        ("{kind: openai, currency: EUR, price: {input: 1}}", "mind.price.output is missing"),
        ("{kind: openai, currency: EUR, price: {input: -1, output: 2}}", "mind.price.input must be greater than"),
        ("{kind: openai, currency: EUR, price: {input: much, output: 2}}", "mind.price.input must be a valid number"),
        ("{currency: euros}", "mind.currency must match pattern"),
        ("{decide: reflex}", "mind.decide must hold keys of its own"),
        ("{think: {max_tokens_per_hour: 9}}", "mind.think.max_tokens_per_hour is no setting"),
        ("{fallbacks: {kind: reflex}}", "mind.fallbacks must be a list"),
        ("{fallbacks: [{kind: oracle}]}", "mind.fallbacks[0].kind must be"),
    ],
)
def test_what_does_not_fit_is_one_sentence(refusal: Refusal, text: str, sentence: str) -> None:
    """With the key at fault."""
    said = refusal(f"mind: {text}")

    assert sentence in said
    assert "\n" not in said


def test_a_script_of_any_part_may_not_lie_where_the_agent_writes(read: Read, tmp_path: Path) -> None:
    """Its path is absolute and looked at like that of `mind.script`."""
    script = tmp_path / "work" / "script.txt"
    settings = read(f"workspace: {tmp_path}/work\nmind: {{kind: reflex, decide: {{kind: scripted, script: {script}}}}}")

    with pytest.raises(UsageError, match=r"mind\.decide\.script"):
        refuse_writable(Home(tmp_path / "home"), settings, None, [])


def test_what_a_part_took_has_the_place_where_it_stands(home: Home) -> None:
    """A key of `mind.think` that the file does not name comes from that of `mind`, of another kind it is a default."""
    home.config_file.parent.mkdir(parents=True, exist_ok=True)
    home.config_file.write_text(
        "mind:\n  kind: openai\n  timeout: 7\n  think:\n    model: small\n  decide: {kind: reflex}\n"
    )

    origins = read_settings(None, home, {}).origins()

    def places(*keys: str) -> list[str]:
        return [origins[key].rpartition(" ")[2] for key in keys]

    assert places("mind.think.kind", "mind.think.timeout", "mind.think.model") == ["2", "3", "5"]
    assert places("mind.think.temperature", "mind.decide.timeout", "mind.decide.kind") == ["default", "default", "6"]
