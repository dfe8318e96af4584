"""Parts of a request that an endpoint refuses, and what comes beside a reply. Whole servers: `tests/endpoints`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from conch.actions import parse
from conch.config import MindSettings
from conch.config.load import load
from conch.cycle.decide import decide
from conch.cycle.prompts.build import PromptLimits
from conch.errors import ModelError
from conch.home import Home
from conch.minds import ConnectionPool, Prompt
from conch.minds.dialect import RequestForm, without_fence
from conch.minds.replies.reasoning import split_reasoning
from conch.tools import BUILTIN_TOOLS, Toolbox
from tests.minds.test_openai import DONE, FINE, Endpoint, delta, event, head, serving, whole

Asking = Callable[..., Prompt]
REGISTRY = Toolbox(BUILTIN_TOOLS).registry
PLAIN = {"model", "messages", "stream", "stream_options", "temperature", "max_tokens"}


def refused(message: str, **more: Any) -> bytes:
    return whole(400, json.dumps({"error": {"message": message, "type": "invalid_request_error", **more}}))


def reasoning_model(body: dict[str, Any]) -> bytes:
    """OpenAI's o-series: other name of the limit, no temperature but the default."""
    if "max_tokens" in body:
        words = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        return refused(words, param="max_tokens", code="unsupported_parameter")
    if body.get("temperature", 1) != 1:
        words = (
            "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) is supported."
        )
        return refused(words, param="temperature", code="unsupported_value")
    return FINE


def without_system_role(body: dict[str, Any]) -> bytes:
    """A model whose chat template has no system role, such as Gemma's, behind vLLM."""
    roles = [message["role"] for message in body["messages"]]
    return refused("System role not supported") if "system" in roles else FINE


def without_stream_options(body: dict[str, Any]) -> bytes:
    """A server that validates strictly and knows no stream_options: status 422, in FastAPI's words."""
    if "stream_options" in body:
        return whole(422, json.dumps({"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}))  # fmt: skip # noqa: E501
    return FINE


def without_streaming(body: dict[str, Any]) -> bytes:
    """A server that gives replies as a whole alone, as some gateways in front of a model do."""
    if body.get("stream"):
        return refused("Streaming is not supported for this deployment")
    choice = {"index": 0, "message": {"role": "assistant", "content": "DO_NOTHING: rest"}, "finish_reason": "stop"}
    return whole(200, json.dumps({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}))


async def asked(endpoint: Endpoint, prompts: list[Prompt], line: ConnectionPool | None = None, **settings: Any) -> Any:
    mind = endpoint.mind(line=line, **settings)
    try:
        return [await mind.complete(prompt) for prompt in prompts]
    finally:
        await mind.close()


def dialect(endpoint: Endpoint, reply: Callable[[dict[str, Any]], bytes]) -> None:
    """Have the endpoint answer by the request's body."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(reply(endpoint.requests[-1][1]))

    endpoint.answers = [answer]


@pytest.mark.parametrize(
    ("speaks", "requests", "left"),
    [
        (reasoning_model, 3, PLAIN - {"max_tokens", "temperature"} | {"max_completion_tokens"}),
        (without_system_role, 2, PLAIN),
        (without_stream_options, 2, PLAIN - {"stream_options"}),
        (without_streaming, 2, PLAIN - {"stream", "stream_options"}),
    ],
)
async def test_what_a_model_refuses_by_name_is_left_out_and_remembered(
    prompt: Asking, speaks: Callable[[dict[str, Any]], bytes], requests: int, left: set[str]
) -> None:
    """Asked again at once without it, or by its other name; later questions, of other agents too, begin so."""
    async with serving(FINE) as endpoint:
        dialect(endpoint, speaks)
        line = ConnectionPool()
        replies = await asked(endpoint, [prompt(), prompt()], line, max_tokens=9)
        replies += await asked(endpoint, [prompt()], line, max_tokens=9)
        await line.close()

    assert [reply.text for reply in replies] == ["DO_NOTHING: rest"] * 3
    assert len(endpoint.requests) == requests + 2
    last = endpoint.requests[-1][1]
    assert last.keys() == left
    assert "You are echo." in last["messages"][0]["content"]
    assert last.get("max_completion_tokens", 9) == last.get("max_tokens", 9) == 9


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 5000",
        "max_tokens 32000 is too large: not supported above 8192",
        "Unexpected image in the question; the system message is fine",
        "maximum context length is 8192 tokens",
        "Unsupported parameter: 'top_k'",
        "no",
    ],
)
async def test_a_refusal_for_another_reason_ends_the_question_as_before(prompt: Asking, message: str) -> None:
    """Nothing is left out on suspicion: one request, the endpoint's words."""
    async with serving(refused(message)) as endpoint:
        with pytest.raises(ModelError, match=r"refuses the request|does not fit") as raised:
            await asked(endpoint, [prompt()])

    assert raised.value.fatal
    assert message in str(raised.value)
    assert len(endpoint.requests) == 1


async def test_an_endpoint_that_refuses_whatever_is_left_is_not_asked_for_ever(prompt: Asking) -> None:
    """Each part is left out once."""
    names = "max_tokens temperature stream_options system role max_completion_tokens"
    async with serving(refused(f"Unsupported parameter: {names}")) as endpoint:
        with pytest.raises(ModelError):
            await asked(endpoint, [prompt()])

    assert len(endpoint.requests) == 5


@pytest.mark.parametrize("field", ["model", "messages", "stream"])
def test_extra_fields_cannot_replace_the_question(field: str) -> None:
    """The settings are refused with the field's name."""
    with pytest.raises(ValueError, match=f"{field} is set by Conch itself"):
        MindSettings(extra={field: "x"})


@pytest.mark.parametrize(
    "stream",
    [
        event({"choices": [{"delta": {"reasoning_content": "TOOL: shell("}}]}) + delta("DO_NOTHING: rest", "stop"),
        event({"choices": [{"delta": {"reasoning": "Hm."}}]}) + delta("DO_NOTHING: rest", "stop"),
        delta("<think>\nTOOL: x\n") + delta("</think>\n\nDO_NOTHING: rest", "stop"),
        delta("the user wants</think>DO_NOTHING: rest", "stop"),
        delta("```\nDO_NOTHING: rest\n```", "stop"),
        delta("<think></think>```text\nDO_NOTHING: rest\n```\n", "stop"),
        delta("`DO_NOTHING: rest`", "stop"),
    ],
)
async def test_reasoning_and_fences_are_no_part_of_a_decision(prompt: Asking, stream: bytes) -> None:
    """By vLLM's and by Ollama's name, in the text, with a beginning that the template has left out."""
    async with serving(head() + stream + DONE) as endpoint:
        [reply] = await asked(endpoint, [prompt()])

    assert reply.text == "DO_NOTHING: rest"
    assert reply.usage.output_tokens > 0


def test_a_fence_without_an_end_costs_no_more_than_its_length() -> None:
    """A small model that repeats blanks for a megabyte: 5 ms, where a rescan of each run of blanks takes hours."""
    blanks = " " * 1_000_000
    for text in (f"```\n{blanks}x", f'```\nTOOL: a(b="{blanks}")\n```', f"```{blanks}", "`" * 1_000_000):
        without_fence(text)


async def test_a_thought_keeps_its_fences(prompt: Asking) -> None:
    """Code in a thought is words; only a decision is a reply in the grammar."""
    async with serving(head() + delta("```\nls\n```", "stop") + DONE) as endpoint:
        [reply] = await asked(endpoint, [prompt("think")])

    assert reply.text == "```\nls\n```"


@given(st.text(max_size=60), st.text(max_size=200))
def test_an_action_that_speaks_of_thinking_is_left_as_it_is(word: str, text: str) -> None:
    """What begins as an action is one; nothing raises; what is split adds up to no more than there was."""
    written = f'TOOL: notes(operation="remember", text="{word}</think>```")'

    assert split_reasoning(written) == ("", written)
    assert without_fence(written) == written
    reasoning, said = split_reasoning(text)
    assert len(reasoning) + len(said) <= len(text)
    assert without_fence(f"```\n{written}\n```") == written


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (
            delta('TOOL: shell(command="ls', "length"),
            'cut off at its limit of tokens, mind.max_tokens (a " is not closed',
        ),
        (
            event({"choices": [{"delta": {"refusal": "I cannot help."}}]}) + delta(None, "stop"),
            "the model refused (the",
        ),
        (delta("", "content_filter"), "content filter ended the reply (the reply is empty)"),
    ],
)
async def test_a_reply_that_was_ended_says_by_what(prompt: Asking, stream: bytes, reason: str) -> None:
    """The invalid action's reason names the limit, the refusal or the filter; the words of a refusal are the reply."""
    async with serving(head() + stream + DONE) as endpoint:
        mind = endpoint.mind()
        found = await decide(mind, "You are echo.", prompt().situation, REGISTRY, PromptLimits(10))
        await mind.close()

    assert not found.action.valid
    assert reason in str(found.action.reason)
    assert ("I cannot help." in found.completion.text) == ("refused" in reason)


@pytest.mark.parametrize(
    "stream",
    [
        event({"choices": [{"delta": {"reasoning_content": "so" * 6}}]}) + delta(None, "length"),
        delta("<think>so so so so ", "length"),
    ],
)
async def test_tokens_that_reasoning_used_up_are_named(prompt: Asking, stream: bytes) -> None:
    """There is no reply to score: the error says what to raise, and is tried again."""
    async with serving(head() + stream + DONE) as endpoint:
        with pytest.raises(
            ModelError, match=r"its 9 tokens on 1\d characters of reasoning .*raise mind.max_tokens"
        ) as e:
            await asked(endpoint, [prompt()], max_tokens=9)

    assert not e.value.fatal


async def test_tokens_that_were_not_counted_are_estimated_and_that_is_logged_once(prompt: Asking) -> None:
    """An hour's limit and the context's use would otherwise see nothing."""
    with capture_logs() as logs:
        async with serving(head() + delta("DO_NOTHING: rest", "stop") + DONE) as endpoint:
            replies = await asked(endpoint, [prompt(), prompt()])

    assert [(reply.usage.input_tokens, reply.usage.output_tokens) for reply in replies] == [(8, 6)] * 2
    assert [entry["event"] for entry in logs].count("mind.tokens_estimated") == 1


async def test_a_nul_in_a_reply_is_a_character_like_others(prompt: Asking) -> None:
    """It reaches the parser, and the tools refuse it where it cannot be."""
    async with serving(head() + delta('TOOL: shell(command="ls \0")', "stop") + DONE) as endpoint:
        [reply] = await asked(endpoint, [prompt()])

    assert parse(reply.text, REGISTRY).args == {"command": "ls \0"}


async def test_reasoning_without_an_end_is_left(prompt: Asking) -> None:
    """It is bounded as a reply is."""

    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(head())
        while True:
            writer.write(event({"choices": [{"delta": {"reasoning_content": "so " * 20_000}}]}))
            await writer.drain()

    async with serving(endless) as endpoint:
        with pytest.raises(ModelError, match="reasoning goes on past"):
            await asked(endpoint, [prompt()])


def test_the_plain_form_leaves_the_request_as_it_is() -> None:
    """A form changes what was refused and nothing else."""
    request = {"model": "m", "temperature": 1, "max_tokens": 5}

    assert RequestForm().body(request) == request
    assert RequestForm(frozenset({"max_tokens"})).body(request) == {
        "model": "m",
        "temperature": 1,
        "max_completion_tokens": 5,
    }


async def test_extra_fields_of_the_file_are_sent_with_their_types(
    prompt: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file and the environment hold texts; an endpoint that validates takes no "0.9" for a number."""
    fields = "extra: {top_p: 0.9, temperature: 'null', kwargs: {enable_thinking: false, stop: [a, '\"7\"']}}"
    (tmp_path / "conch.yaml").write_text(f"mind: {{kind: openai, {fields}}}")
    monkeypatch.setenv("CONCH_MIND__EXTRA", "{top_k: 20}")
    extra = load(None, Home(tmp_path), {}).mind.extra

    async with serving(FINE) as endpoint:
        await asked(endpoint, [prompt()], extra=extra)

    sent = endpoint.requests[0][1]
    assert sent.keys() == PLAIN - {"temperature"} | {"top_p", "top_k", "kwargs"}
    assert (sent["top_p"], sent["top_k"]) == (0.9, 20)
    assert sent["kwargs"] == {"enable_thinking": False, "stop": ["a", "7"]}
