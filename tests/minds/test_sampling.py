"""The decoding of a model's replies: which are held to the grammar, with which seed, and what is recorded of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.actions import Registry
from conch.config import MindSettings
from conch.minds.constraint.findings import FORMS
from conch.minds.constraint.grammar import LlamaGrammar
from conch.minds.replies.reply import StreamedReply
from conch.minds.sampling import LONGEST, SHORTEST, Sampler, is_free, longest_text
from conch.tools import BUILTIN_TOOLS

if TYPE_CHECKING:
    from tests.minds.conftest import MakePrompt

REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)
GRAMMAR = LlamaGrammar()


def _sampler(**settings: object) -> Sampler:
    return Sampler(MindSettings.model_validate({"kind": "local", "free_share": 0.0, **settings}), seed=4)


def test_decisions_alone_are_held_to_a_constraint(prompt: MakePrompt) -> None:
    """A decision's request has the field of the form; a thought is never held."""
    sampler = _sampler()
    decision = replace(prompt(), registry=REGISTRY)

    assert "grammar" in sampler.of(decision, GRAMMAR).fields
    assert (sampler.holds(decision), sampler.holds(prompt("think"))) == (True, False)
    assert sampler.of(prompt("think"), GRAMMAR).fields.keys() == sampler.of(decision, None).fields.keys()


def test_other_endpoints_get_no_field_that_they_may_not_know(prompt: MakePrompt) -> None:
    """Without `constrain`, a request to an endpoint has no grammar, no seed and asks for no probabilities."""
    assert _sampler(kind="openai").of(replace(prompt(), registry=REGISTRY), None).fields == {}


def test_probabilities_are_asked_for_where_the_reply_is_recorded_as_it_was_decoded(prompt: MakePrompt) -> None:
    """Free, and under a grammar. The text of another form is not what is recorded, so its probability says nothing."""
    decision = replace(prompt(), registry=REGISTRY)

    asked = {form.field: "logprobs" in _sampler().of(decision, form).fields for form in FORMS}
    assert asked == {"grammar": True, "structured_outputs": True, "response_format": False, "tools": False}
    assert "logprobs" in _sampler().of(decision, None).fields


def test_a_restart_draws_the_same(prompt: MakePrompt) -> None:
    """Two samplers of one agent give the same seed and the same free cycles; another cycle has another seed."""
    asked = [replace(prompt(cycle=cycle), registry=REGISTRY) for cycle in range(40)]
    one, other = _sampler(free_share=0.5), _sampler(free_share=0.5)

    assert [one.of(each, GRAMMAR) for each in asked] == [other.of(each, GRAMMAR) for each in asked]
    assert len({one.of(each, None).seed for each in asked}) == len(asked)
    assert [one.holds(each) for each in asked] == [other.holds(each) for each in asked]
    assert {one.holds(each) for each in asked} == {True, False}


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_the_share_of_free_cycles_is_as_set(share: float) -> None:
    """Of 5,000 cycles the share that is set is decoded freely: none at 0, all at 1."""
    free = sum(is_free("echo", cycle, share) for cycle in range(5000))

    assert free / 5000 == pytest.approx(share, abs=0.015 if 0 < share < 1 else 0)


@given(st.integers(1, 100_000))
def test_texts_leave_room_for_the_whole_reply(max_tokens: int) -> None:
    """All texts of the longest call fit the tokens at a token a character, within fixed limits."""
    longest = longest_text(REGISTRY, max_tokens)

    assert SHORTEST <= longest <= LONGEST
    assert longest == SHORTEST or 3 * longest <= max_tokens


@pytest.mark.parametrize(
    ("kind", "tokens", "bounded"), [("openai", 8192, False), ("openai", 1024, True), ("local", 8192, True)]
)
def test_a_long_reply_may_hold_a_long_text(prompt: MakePrompt, kind: str, tokens: int, bounded: bool) -> None:
    """Held to a grammar, a model of an endpoint with many tokens writes whole files; a small one has an end."""
    settings = MindSettings.model_validate({"kind": kind, "max_tokens": tokens})
    asked = replace(prompt(), registry=REGISTRY, max_tokens=tokens)
    grammar = str(Sampler(settings, seed=1).of(asked, GRAMMAR).fields["grammar"])

    assert ("char{0," in grammar) is bounded
    assert ("char* " in grammar) is not bounded


def test_the_record_has_what_the_engine_reported(prompt: MakePrompt) -> None:
    """Log probabilities add up over chunks, tokens are counted, the model is the one that answered."""
    reply = StreamedReply()
    for logprob in (-1.5, -0.25):
        token = {"token": "a", "logprob": logprob}
        reply.take({"model": "m", "choices": [{"delta": {"content": "a"}, "logprobs": {"content": [token]}}]})
    reply.take({"choices": [], "usage": {"completion_tokens": 2}})

    sampling = _sampler().of(replace(prompt(), registry=REGISTRY), GRAMMAR)
    found = sampling.decoding(reply, "asked", held=True)

    assert (found.engine, found.model, found.logprob, found.tokens) == ("llama.cpp", "m", -1.75, 2)
    assert (found.constraint, found.seed, found.temperature) == ("grammar", sampling.seed, 0.7)
    assert sampling.decoding(reply, "asked", held=False).constraint == "free"


@pytest.mark.parametrize("odd", [float("nan"), float("-inf"), -1e999, 10**400, True, "much", None, {}])
def test_a_log_probability_that_is_no_number_is_none(prompt: MakePrompt, odd: object) -> None:
    """Any endpoint may send one: the reply counts, and its probability is not known."""
    reply = StreamedReply()
    token = {"token": "a", "logprob": odd}
    reply.take({"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [token]}}]})

    assert _sampler().of(prompt(), None).decoding(reply, "m", held=False).logprob is None
