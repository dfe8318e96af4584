"""Replies under a constraint as endpoints send them: whole, in pieces, beside other things, broken."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from conch.actions import parse
from conch.config import MindSettings
from conch.cycle.decide import decide
from conch.cycle.prompts.build import PromptLimits
from conch.errors import ModelError
from conch.minds import Completion
from conch.minds.constraint.findings import FORMS, ConstraintFindings
from conch.minds.constraint.search import ConstraintSearch
from conch.minds.replies.reply import MAX_REPLY, StreamedReply
from tests.endpoints.asking import REGISTRY, decision
from tests.minds.test_openai import DONE, USAGE, Answer, delta, event, head, serving, whole

LISTS = 'TOOL: filesystem(operation="list", path=".")'
ARGUMENTS = '{"operation": "list", "path": ".", "content": null}'


def calls(*parts: dict[str, Any], finish: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"tool_calls": list(parts)}, "finish_reason": finish}]})


def call(arguments: str | None, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {**more, "function": {"arguments": arguments, **({"name": name} if name else {})}}


async def asked(answer: bytes | Answer, constrain: str) -> tuple[Completion, int]:
    """The reply to a decision that is held to `constrain`, and how many requests it took."""
    async with serving(answer) as endpoint:
        mind = endpoint.mind(constrain=constrain, free_share=0.0)
        try:
            return await mind.complete(decision()), len(endpoint.requests)
        finally:
            await mind.close()


LAST = delta(None, "tool_calls") + USAGE + DONE
WHOLE_CALL = {"message": {"content": None, "tool_calls": [call(ARGUMENTS, "filesystem", id="a")]}, "finish_reason": "tool_calls"}  # fmt: skip # noqa: E501


@pytest.mark.parametrize(
    ("constrain", "stream"),
    [
        ("tools", head() + calls(call(ARGUMENTS, "filesystem", index=0), finish="tool_calls") + USAGE + DONE),
        (
            "tools",
            head()
            + calls(call("", "filesystem", index=0))
            + calls(call(ARGUMENTS[:9], index=0))
            + calls(call(ARGUMENTS[9:], index=0))
            + LAST,
        ),
        ("tools", head() + calls(call(ARGUMENTS, "filesystem")) + LAST),
        ("tools", head() + delta("I will look.") + calls(call(ARGUMENTS, "filesystem", index=0)) + LAST),
        ("tools", head() + calls(call(ARGUMENTS, "filesystem", index=0), call("{}", "git", index=1)) + LAST),
        (
            "tools",
            head()
            + event({"choices": [{"delta": {"reasoning_content": "Hm."}}]})
            + calls(call(ARGUMENTS, "filesystem", index=0))
            + LAST,
        ),
        ("tools", head() + delta("<think>Hm.</think>") + calls(call(ARGUMENTS, "filesystem", index=0)) + LAST),
        ("tools", whole(200, json.dumps({"choices": [WHOLE_CALL], "usage": {"prompt_tokens": 7}}))),
        ("schema", head() + delta(f'{{"action": {{"filesystem": {ARGUMENTS}}}}}', "stop") + USAGE + DONE),
        ("schema", head() + delta(f'<think>{{}}</think>\n{{"action": {{"filesystem": {ARGUMENTS}}}}}', "stop") + DONE),
        ("schema", head() + delta(f'```json\n{{"action": {{"filesystem": {ARGUMENTS}}}}}\n```', "stop") + DONE),
        ("grammar", head() + delta(f"<think>so</think>{LISTS}", "stop") + USAGE + DONE),
        ("tools", head() + calls(call(ARGUMENTS, "filesystem", index=1, id="a")) + LAST),
        ("tools", head() + calls(call(json.loads(ARGUMENTS), "filesystem", index=0)) + LAST),
        ("tools", head() + calls(call(json.dumps(ARGUMENTS), "filesystem", index=0)) + LAST),
        ("tools", head() + calls(call(ARGUMENTS, "filesystem", index=0)) + DONE),
        ("schema", head() + delta({"action": {"filesystem": json.loads(ARGUMENTS)}}, "stop") + DONE),
    ],
)
async def test_a_call_is_the_same_action_in_every_form(constrain: str, stream: bytes) -> None:
    """Whole or in pieces, with and without an index, beside words, reasoning and a second call."""
    reply, requests = await asked(stream, constrain)

    assert (reply.text, reply.constrained) == (LISTS, True)
    assert parse(reply.text, REGISTRY).args == {"operation": "list", "path": "."}
    assert reply.usage.output_tokens > 0 or b'"usage"' in stream
    assert requests == (2 if constrain == "grammar" else 1)  # a grammar has two forms: the first one is tried


@pytest.mark.parametrize(
    ("constrain", "stream", "reason"),
    [
        ("tools", calls(call('{"operation": "li', "filesystem", index=0)) + delta(None, "stop"), "name is missing"),
        ("tools", calls(call("[]", "filesystem", index=0)) + delta(None, "stop"), "missing"),
        ("tools", calls(call("{}", "burn", index=0)) + delta(None, "stop"), "there is no tool burn"),
        ("tools", delta("I would rather talk.", "stop"), "is neither TOOL:"),
        ("schema", delta('{"action": {"burn": {}}}', "stop"), "there is no tool burn"),
        ("schema", delta('{"action": 7}', "stop"), "is neither TOOL:"),
        ("schema", delta("   ", "stop"), "is empty"),
    ],
)
async def test_a_constrained_reply_that_is_no_action_counts_as_a_free_one(
    constrain: str, stream: bytes, reason: str
) -> None:
    """The parser says what is wrong with it; it is logged, and not asked for again."""
    with capture_logs() as logs:
        reply, requests = await asked(head() + stream + DONE, constrain)

    action = parse(reply.text, REGISTRY)
    assert not action.valid
    assert reason in str(action.reason)
    assert (reply.constrained, reply.decoding and reply.decoding.constraint) == (False, "free")
    assert requests == 1
    assert "mind.constraint_ignored" in [entry["event"] for entry in logs]


@pytest.mark.parametrize(
    ("stream", "held", "reason"),
    [
        (delta('{"action": {"filesystem": {"operation": "li', "length"), True, "cut off at its limit of tokens"),
        (event({"choices": [{"delta": {"refusal": "I cannot."}}]}) + delta(None, "stop"), False, "the model refused"),
        (delta("", "content_filter"), False, "content filter ended the reply"),
    ],
)
async def test_a_reply_that_was_ended_contradicts_no_constraint(stream: bytes, held: bool, reason: str) -> None:
    """Cut, refused or filtered: the action's reason says so, and no endpoint is blamed."""
    async with serving(head() + stream + DONE) as endpoint:
        mind = endpoint.mind(constrain="schema", free_share=0.0)
        with capture_logs() as logs:
            found = await decide(mind, "You are echo.", decision().situation, REGISTRY, PromptLimits(10))
        await mind.close()

    assert not found.action.valid
    assert reason in str(found.action.reason)
    assert found.completion.constrained == held
    assert "mind.constraint_ignored" not in [entry["event"] for entry in logs]


@pytest.mark.parametrize(
    ("constrain", "stream", "held"),
    [
        ("tools", calls(call('{"operation": "li', "filesystem", index=0)), True),
        ("tools", delta("As an assistant, I"), False),
        ("schema", delta('{"action": {"filesys'), True),
        ("schema", delta("As an assistant, I"), False),
    ],
)
async def test_a_reply_that_was_cut_was_held_if_it_began_so(constrain: str, stream: bytes, held: bool) -> None:
    """A call or an object that is not whole; a chat that runs into the limit was not held to anything."""
    reply, _ = await asked(head() + stream + delta(None, "length") + DONE, constrain)

    assert reply.constrained == held


@pytest.mark.parametrize(
    ("text", "held"), [("TOOL: shell(comm", True), ("TO", True), ("REFLECT: a", True), ("As", False)]
)
def test_a_text_that_was_cut_was_held_to_the_grammar_if_it_begins_as_an_action(text: str, held: bool) -> None:
    """Also amid its first word."""
    assert FORMS[0].begun(StreamedReply(), text) == held


async def test_tokens_that_reasoning_used_up_before_a_call_are_named() -> None:
    """There is no reply to score."""
    stream = head() + event({"choices": [{"delta": {"reasoning_content": "so so"}}]}) + delta(None, "length") + DONE

    with pytest.raises(ModelError, match=r"on 5 characters of reasoning .*raise mind\.max_tokens"):
        await asked(stream, "tools")


@pytest.mark.parametrize(
    "part",
    [7, "x", {"function": "x"}, {"function": {"name": 7}}, {"function": {"name": "x", "arguments": 1}}],
)
async def test_a_call_that_is_no_call_is_an_error(part: Any) -> None:
    """What is not shaped like a completion is said, and tried again by the agent."""
    with pytest.raises(ModelError, match="sent what is no completion") as raised:
        await asked(head() + calls(part) + LAST, "tools")

    assert not raised.value.fatal


@pytest.mark.parametrize(
    ("constrain", "stream", "sentence"),
    [
        ("tools", delta("I look.") + LAST, "replied by a call of a tool that cannot be read"),
        (
            "tools",
            calls({"index": 0, "id": "a", "function": {"arguments": ARGUMENTS}}) + LAST,
            "replied by a call of a tool that cannot be read",
        ),
        ("off", delta("") + LAST, "sent a reply with no text that can be read"),
    ],
)
async def test_a_call_that_the_endpoint_has_lost_is_no_reply(constrain: str, stream: bytes, sentence: str) -> None:
    """The model's words are not there: it is asked again, and nothing is scored. A call is named where tools were."""
    with pytest.raises(ModelError, match=sentence) as raised:
        await asked(head() + stream, constrain)

    assert raised.value.unread
    assert not raised.value.fatal


async def test_a_call_without_arguments_has_none() -> None:
    """Gateways before Anthropic's models send an empty text for it, others leave it out."""
    for arguments in ("", None, {}, "{}"):
        reply, _ = await asked(head() + calls(call(arguments, "DO_NOTHING", index=0)) + LAST, "tools")
        assert "text" in str(parse(reply.text, REGISTRY).reason or reply.text) or reply.text.startswith("DO_NOTHING")


async def test_arguments_without_an_end_are_left() -> None:
    """A call is bounded as a reply is."""

    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(head() + calls(call("", "shell", index=0)))
        while True:
            writer.write(calls(call("x" * 65536, index=0)))
            await writer.drain()

    with pytest.raises(ModelError, match=f"goes on past {MAX_REPLY} characters"):
        await asked(endless, "tools")


async def test_nuls_in_a_call_reach_the_tools_as_they_are() -> None:
    """The tools refuse them where they cannot be."""
    reply, _ = await asked(head() + calls(call('{"command": "ls \\u0000"}', "shell", index=0)) + LAST, "tools")

    assert parse(reply.text, REGISTRY).args == {"command": "ls \0"}


@given(st.text(max_size=300), st.none() | st.tuples(st.text(max_size=20), st.text(max_size=200)))
def test_no_reply_breaks_a_form(text: str, called: tuple[str, str] | None) -> None:
    """Whatever an endpoint writes: each form makes a text of it, and the parser an action."""
    reply = StreamedReply()
    if called is not None:
        reply.take({"choices": [{"delta": {"tool_calls": [call(called[1], called[0])]}}]})
    for form in FORMS:
        parse(form.read(reply, text, REGISTRY), REGISTRY)


@pytest.mark.parametrize(
    ("constrain", "field"),
    [("auto", "grammar"), ("grammar", "grammar"), ("schema", "response_format"), ("tools", "tools"), ("off", None)],
)
async def test_the_form_of_the_own_engine_is_known(constrain: str, field: str | None) -> None:
    """The mind `local` asks llama.cpp: nothing is looked for."""
    settings = MindSettings.model_validate({"kind": "local", "constrain": constrain})

    async def never(*_: object) -> StreamedReply:
        raise AssertionError("it was looked for")

    form = await ConstraintSearch(settings, "there", ConstraintFindings(), "mind").form(REGISTRY, never)

    assert (form.field if form is not None else None) == field
