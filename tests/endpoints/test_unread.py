"""A reply that could not be read is no act: it is asked for again, and counted with the decision that followed."""

from __future__ import annotations

import json

import pytest

from conch.cycle.hosting.questions import WatchedMind
from conch.errors import ModelError
from conch_schemas import ActionDecided, ActionTaken
from tests.cycle.conftest import Life
from tests.endpoints.asking import decision
from tests.minds.test_openai import DONE, FINE, Endpoint, delta, head, serving, whole

THOUGHT = head() + delta("I want to rest.", "stop") + DONE
BUSY = whole(529, json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}))
OOPS = head() + b"data: {oops\n\n"


def mind_of(endpoint: Endpoint) -> WatchedMind:
    return WatchedMind(endpoint.mind(constrain="off", free_share=0.0))


async def test_the_act_says_how_many_replies_before_it_could_not_be_read(life: Life) -> None:
    """Two answers of an overloaded endpoint: one act in the cycle, with its own reply; the next one says nothing."""
    async with serving(THOUGHT, BUSY, BUSY, FINE, THOUGHT, FINE) as endpoint:
        life.mind = endpoint.mind(constrain="off", free_share=0.0)
        await life.run(2)
        await life.mind.close()

    decided, taken = life.facts(ActionDecided), life.facts(ActionTaken)
    assert [act.cycle for act in taken] == [0, 1]
    assert [act.raw for act in taken] == ["DO_NOTHING: rest"] * 2
    assert [act.action.valid for act in taken] == [True, True]
    assert [act.decoding.unread for act in taken if act.decoding] == [2, None]
    assert [act.decoding for act in decided] == [act.decoding for act in taken]


@pytest.mark.parametrize("answer", [OOPS, head() + delta("DO_NOTHING: ha"), whole(200, "<html>", "text/html"), b""])
async def test_a_question_that_is_asked_again_remembers_what_could_not_be_read(answer: bytes) -> None:
    """Framing and labels count; a connection that drops before an answer is no reply. Then the count begins anew."""
    async with serving(answer, answer, FINE) as endpoint:
        mind = mind_of(endpoint)
        for _ in range(2 * (answer != b"")):
            with pytest.raises(ModelError):
                await mind.complete(decision())
        replies = [await mind.complete(decision()) for _ in range(2)]
        await mind.close()

    assert [reply.unread for reply in replies] == [2 * (answer != b""), 0]


async def test_what_the_model_wrote_is_never_a_reply_that_could_not_be_read() -> None:
    """Prose, half a call, nothing at all: a model does not learn to break its calls."""
    for text in ("Sure!", 'TOOL: shell(command="ls', "<think>Hm.", ""):
        async with serving(head() + delta(text, "stop") + DONE) as endpoint:
            mind = mind_of(endpoint)
            reply = await mind.complete(decision())
            await mind.close()
        assert (len(endpoint.requests), reply.unread) == (1, 0)


async def test_an_endpoint_whose_words_are_beside_the_content_is_read() -> None:
    """`text` in place of `content` in each part, as of a completion that is no chat."""
    said = b'data: {"choices": [{"index": 0, "delta": {"text": "DO_NOTHING: rest"}, "finish_reason": "stop"}]}\n\n'
    async with serving(head() + said + DONE) as endpoint:
        mind = mind_of(endpoint)
        reply = await mind.complete(decision())
        await mind.close()

    assert (reply.text, reply.unread, len(endpoint.requests)) == ("DO_NOTHING: rest", 0, 1)


async def test_a_refused_request_is_no_reply() -> None:
    """A key that is not accepted says nothing of the model's words."""
    async with serving(whole(401, "{}"), FINE) as endpoint:
        mind = mind_of(endpoint)
        with pytest.raises(ModelError) as refused:
            await mind.complete(decision())
        reply = await mind.complete(decision())
        await mind.close()

    assert not refused.value.unread
    assert reply.unread == 0
