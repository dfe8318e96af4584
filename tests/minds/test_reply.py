"""A reply in the types that endpoints send it in: what is clear counts, all else is no completion."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.errors import ModelError
from conch.minds.replies.calls import whole_number
from conch.minds.replies.reply import StreamedReply

ARGUMENTS = {"operation": "list", "path": "."}
TEXT = json.dumps(ARGUMENTS)
WHOLE = ("filesystem", ARGUMENTS)


def reply_of(*chunks: Any) -> StreamedReply:
    reply = StreamedReply()
    for chunk in chunks:
        reply.take(chunk)
    return reply


def delta(**said: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": said}]}


def calls(*parts: Any) -> dict[str, Any]:
    return delta(tool_calls=list(parts))


def part(name: str | None, arguments: Any, **more: Any) -> dict[str, Any]:
    return {**more, "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    "content",
    [
        "DO_NOTHING: rest",
        [{"type": "text", "text": "DO_NOTHING: rest"}],
        [{"type": "text", "text": "DO_NOTHING: "}, {"type": "text", "text": "rest"}],
        [{"type": "output_text", "text": "DO_NOTHING: rest", "annotations": []}],
        [{"type": "text", "text": {"value": "DO_NOTHING: rest", "annotations": []}}],
        {"type": "text", "text": "DO_NOTHING: rest"},
        {"type": "text", "content": "DO_NOTHING: rest"},
        [{"type": "output_text", "value": "DO_NOTHING: rest"}],
        ["DO_NOTHING: ", "rest"],
        [{"text": "DO_NOTHING: rest"}],
        [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, "DO_NOTHING: rest"],
        [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text", "text": "DO_NOTHING: rest"}],
        [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}, "DO_NOTHING: rest"],
        [{"text": "Hm.", "thought": True}, {"text": "DO_NOTHING: rest"}],
        [{"type": "redacted_thinking", "data": "AAAA"}, {"type": "text", "text": "DO_NOTHING: rest"}],
        {"role": "model", "parts": [{"text": "DO_NOTHING: "}, {"text": "rest"}]},
        {"content": [{"type": "text", "text": "DO_NOTHING: rest"}]},
        [None, {"type": "reference", "reference_ids": [1]}, {"type": "text", "text": "DO_NOTHING: rest"}],
        "\ufeffDO_NOTHING: rest",
    ],
)  # fmt: skip
def test_content_in_parts_is_text_and_reasoning(content: Any) -> None:
    """Of Mistral, Anthropic, Gemini, OpenAI's other API: whole and streamed, text is the reply, thinking is not."""
    whole = {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]}
    for reply in (reply_of(whole), reply_of(delta(content=content))):
        assert reply.text == "DO_NOTHING: rest"
        assert reply.reasoned == 3 * ("Hm." in json.dumps(content))


def test_content_that_a_gateway_has_read_is_its_json() -> None:
    """An object in place of its text means the same: a constrained decision, or a judge's answer."""
    content = {"action": {"filesystem": ARGUMENTS}}

    assert json.loads(reply_of(delta(content=content)).text) == content


@pytest.mark.parametrize(
    "said",
    [
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm."},
        {"thinking": "Hm."},
        {"reasoning": {"text": "Hm."}},
        {"reasoning_content": [{"type": "text", "text": "Hm."}]},
        {"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
        {"reasoning": None, "reasoning_content": "Hm."},
    ],
)
def test_reasoning_beside_a_reply_has_many_names(said: dict[str, Any]) -> None:
    """Text, a part, or parts; said twice it counts once."""
    assert reply_of(delta(**said), delta(content="yes")).reasoned == 3


@pytest.mark.parametrize(
    "refusal", ["I cannot.", [{"type": "refusal", "refusal": "I cannot."}], {"refusal": "I cannot."}]
)
def test_a_refusal_is_words(refusal: Any) -> None:
    """Text or parts, in the message or in its content."""
    assert reply_of(delta(refusal=refusal)).refusal == "I cannot."
    assert reply_of(delta(content=[{"type": "refusal", "refusal": "I cannot."}])).refusal == "I cannot."
    assert reply_of(delta(refusal=None), delta(refusal=False)).refusal == ""


@pytest.mark.parametrize(
    "chunks",
    [
        [calls(part("filesystem", "", id="a", index=1)), calls(part(None, TEXT, index=1))],
        [calls(part("git", "{}", id="b", index=3), part("filesystem", TEXT, id="a", index=1))],
        [calls(part("filesystem", TEXT, id="a", index=0)), calls(part("git", "{}", id="b", index=0))],
        [
            calls(part("filesystem", "", id="a", index=0)),
            calls(part(None, TEXT, index=0)),
            calls(part("git", "", id="b", index=0)),
            calls(part(None, "{}", index=0)),
        ],
        [calls(part("filesystem", TEXT, index=0), part("git", "{}", index=0))],
        [calls(part("filesystem", TEXT[:9], id="a")), calls(part(None, TEXT[9:])), calls(part("git", "{}", id="b"))],
        [calls(part("filesystem", TEXT[:9], id="a")), calls(part(None, TEXT[9:], id="a"))],
        [calls(part("filesystem", TEXT[:9], id="a")), calls(part(None, TEXT[9:], id="another"))],
        [calls(part("filesystem", TEXT[:9], id="a", index=0)), calls(part(None, TEXT[9:], id="a", index=1))],
        [calls(part("filesystem", TEXT[:9], id="a", index=0)), calls(part("filesystem", TEXT[9:], id="a", index=1))],
        [calls(part("filesystem", TEXT[:9], id="a", index=0)), calls(part(None, TEXT[9:], index=1))],
        [calls(part("filesystem", TEXT[:9], id="a", index=0)), calls(part("filesystem", TEXT[9:], id="a", index=0))],
        [calls(part("filesystem", TEXT[:9])), calls(part("filesystem", TEXT[9:])), calls(part("git", "{}"))],
        [calls(part("filesystem", TEXT[:9], id="a", index="1")), calls(part(None, TEXT[9:], index="1"))],
        [calls(part("filesystem", TEXT[:9], id="a", index=None)), calls(part(None, TEXT[9:], index=None))],
        [calls(part("filesystem", TEXT, id="x", index=0), part("git", "{}", id="x", index=1))],
        [calls(part("file", None, index=0)), calls(part("system", TEXT, index=0))],
        [calls(part("filesystem", TEXT, index=-1))],
        [{"choices": [{"message": {"tool_calls": [part("filesystem", TEXT), part("filesystem", "{}")]}}]}],
    ],
)
def test_the_first_call_is_found_however_calls_are_numbered(chunks: list[Any]) -> None:
    """From 1, with gaps, all 0, as text, not at all; with an id in the first part, in each, another in each."""
    name, arguments = reply_of(*chunks).call or ("", "")

    assert (name, json.loads(arguments)) == WHOLE


@pytest.mark.parametrize(
    "said",
    [
        {"tool_calls": [part("filesystem", ARGUMENTS, index=0)]},
        {"tool_calls": {"0": part("filesystem", TEXT)}},
        {"tool_calls": part("filesystem", TEXT)},
        {"tool_calls": json.dumps([part("filesystem", ARGUMENTS)])},
        {"tool_calls": [{"id": "a", "type": "function", "name": "filesystem", "arguments": TEXT}]},
        {"tool_calls": [{"name": "filesystem", "parameters": ARGUMENTS}]},
        {"function_call": {"name": "filesystem", "arguments": TEXT}},
        {"tool_calls": [{"function": {"name": "filesystem", "args": ARGUMENTS}}]},
        {"tool_calls": [{"functionCall": {"name": "filesystem", "args": ARGUMENTS}}]},
        {"tool_calls": [part("filesystem", json.dumps(TEXT))]},
        {"tool_calls": [part("filesystem", json.dumps(json.dumps(TEXT)))]},
        {"tool_calls": [part("filesystem", [ARGUMENTS])]},
        {"tool_calls": [part("filesystem", [TEXT[:9], TEXT[9:]])]},
        {"functionCall": {"name": "filesystem", "args": ARGUMENTS}},
        {"content": [{"text": "I look."}, {"functionCall": {"name": "filesystem", "args": ARGUMENTS}}]},
        {"content": [{"toolUse": {"toolUseId": "a", "name": "filesystem", "input": ARGUMENTS}}]},
        {"content": ["I look.", {"type": "tool_use", "name": "filesystem", "input": ARGUMENTS}]},
    ],
)  # fmt: skip
def test_a_call_in_another_shape_is_the_same_call(said: dict[str, Any]) -> None:
    """Arguments as an object, calls as one object or by their index, OpenAI's older name, Anthropic's and Cohere's."""
    for reply in (reply_of(delta(**said)), reply_of({"choices": [{"message": said}]})):
        name, arguments = reply.call or ("", "")
        assert (name, json.loads(arguments)) == WHOLE


def test_arguments_that_come_as_objects_add_up() -> None:
    """An empty text first, then the object, or one field after the other; PHP's empty object is a list."""
    first = calls(part("filesystem", "", index=0))
    fields = [calls(part(None, {key: value}, index=0)) for key, value in ARGUMENTS.items()]

    grown = [calls(part(None, value, index=0)) for value in ({"operation": "li"}, {"operation": "list"}, ARGUMENTS)]

    for chunks in ([calls(part(None, ARGUMENTS, index=0))], fields, grown):
        assert json.loads((reply_of(first, *chunks).call or ("", ""))[1]) == ARGUMENTS
    assert reply_of(calls(part("git", []))).call == ("git", "{}")


@pytest.mark.parametrize(
    "parts",
    [
        ["{}", TEXT],
        ["{}", TEXT[:9], TEXT[9:]],
        ["{}", "{}", TEXT],
        ["null", TEXT],
        [{}, TEXT],
        [{}, TEXT[:9], TEXT[9:]],
        [[], TEXT],
        [TEXT, "{}"],
        [TEXT, {}],
        [TEXT, TEXT],
        [ARGUMENTS, TEXT],
        [TEXT[:9], TEXT],
        [TEXT[:1], TEXT[:2], TEXT[:9], TEXT],
        [TEXT[:9], TEXT[:9], TEXT, TEXT],
        ["{}", TEXT[:9], TEXT],
    ],
)
@pytest.mark.parametrize("is_named", [False, True])
def test_parts_of_arguments_that_repeat_or_precede_the_others_are_no_part_of_them(
    parts: list[Any], is_named: bool
) -> None:
    """An empty object that stands for arguments to come; each part with all the text so far."""
    first, *others = parts
    chunks = [calls(part("filesystem" if is_named else None, arguments, index=0)) for arguments in others]

    name, arguments = reply_of(calls(part("filesystem", first, id="a", index=0)), *chunks).call or ("", "")

    assert (name, json.loads(arguments)) == WHOLE


@pytest.mark.parametrize(
    "parts",
    [
        ['{"a":', '{"a":1}}'],
        ['{"text": "', "{}", '{}"}'],
        ['{"a": ["', '["', '["]}'],
        ["{", '"a": "{"', "}"],
    ],
)
def test_parts_that_only_look_repeated_are_joined(parts: list[str]) -> None:
    """An object in an object, a text with braces in it: where what is joined is an object, it is the arguments."""
    assert reply_of(*(calls(part("git", text, index=0)) for text in parts)).call == ("git", "".join(parts))


def test_arguments_that_are_no_object_are_the_text_that_came() -> None:
    """It is for the action to say what is wrong with them; two calls in one text are not mixed."""
    for arguments in ('{"path": "a"}{"path": "b"}', '{"path": ', "ls", '"ls"', "{}]", "[" * 9999, '{"a":' * 9999 + "}"):
        assert reply_of(calls(part("git", arguments))).call == ("git", arguments)
    for value, text in ((["a"], "a"), ([7], "[7]"), ([["a"]], '[["a"]]')):
        assert reply_of(calls(part("git", value))).call == ("git", text)
    assert reply_of(calls(part("git", '{"a":')), calls(part(None, {"b": 1})), calls(part(None, "}"))).call == (
        "git",
        '{"a":{"b": 1}}',
    )


def test_text_beside_or_in_place_of_content_is_the_reply() -> None:
    """Completions that are no chat name it so; where both came, it is said twice."""
    assert reply_of(delta(text="hi")).text == "hi"
    assert reply_of(delta(content="", text="hi"), delta(content=None, text="!")).text == "hi!"
    assert reply_of(delta(content="hi", text="hi")).text == "hi"
    assert reply_of({"choices": [{"message": {"text": "hi"}}]}).text == "hi"


@pytest.mark.parametrize(
    "said",
    [
        {"content": True},
        {"tool_calls": 7},
        {"tool_calls": ["x"]},
        {"tool_calls": "x"},
        {"tool_calls": [{"function": "x"}]},
        {"tool_calls": [part("x", 7)]},
        {"tool_calls": [{"function": {"name": 7}}]},
        7,
    ],
)
def test_a_value_without_a_clear_meaning_is_no_completion(said: Any) -> None:
    """The reply cannot be read, which is not the model's doing."""
    with pytest.raises((TypeError, ValueError, AttributeError)):
        reply_of({"choices": [{"delta": said}]})


@pytest.mark.parametrize(
    ("reason", "means"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("STOP", "stop"),
        ("FINISH_REASON_STOP", "stop"),
        ("FinishReason.STOP", "stop"),
        ("eos_token", "stop"),
        ({"type": "stop"}, "stop"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("tool_use", "tool_calls"),
        ("function_call", "tool_calls"),
        ("SAFETY", "content_filter"),
        ("sensitive", "content_filter"),
        ("refusal", "refusal"),
        ("something_new", "something_new"),
        ("null", None),
        ("", None),
        (None, None),
    ],
)
def test_the_end_of_a_reply_has_many_names(reason: Any, means: str | None) -> None:
    """Each by OpenAI's name, so that what follows from it follows; an unknown name is an end too."""
    assert reply_of(delta(content="yes"), {"choices": [{"delta": {}, "finish_reason": reason}]}).finish_reason == means


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource", "network_error"])
def test_a_reply_that_its_server_broke_off_is_not_whole(reason: str) -> None:
    """vLLM, DeepSeek, GLM and OpenRouter say it by the reason of the end."""
    with pytest.raises(ModelError, match=f"broke off its reply: {reason}") as raised:
        reply_of(delta(content="half"), {"choices": [{"delta": {}, "finish_reason": reason}]})

    assert raised.value.unread


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": "7", "completion_tokens": "3"}, (7, 3)),
        ({"prompt_tokens": 7.0, "completion_tokens": 3}, (7, 3)),
        ({"prompt_tokens": 7, "completion_tokens": None}, (7, 0)),
        ({"input_tokens": 7, "output_tokens": 3}, (7, 3)),
        ({"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": "none"}, (7, 3)),
        (None, (0, 0)),
        ("7", (0, 0)),
        ([], (0, 0)),
        ({"prompt_tokens": -1, "completion_tokens": "many"}, (0, 0)),
    ],
)
def test_tokens_are_counted_in_any_type(usage: Any, counts: tuple[int, int]) -> None:
    """What is no count leaves the tokens to the estimate, and costs no reply."""
    reply = reply_of(delta(content="yes"), {"choices": [], "usage": usage})

    assert (reply.usage.input_tokens, reply.usage.output_tokens) == counts
    assert reply.counted == (counts[0] > 0)


def test_the_choice_with_the_least_index_counts() -> None:
    """Numbered from 1, as text, by an object; a lesser one replaces what came."""
    say = {"delta": {"content": "yes"}, "finish_reason": "stop"}
    for choices in ([{"index": 1, **say}], [{"index": "0", **say}], {"0": say}, say, [{"index": None, **say}]):
        assert reply_of({"choices": choices}).text == "yes"
    other = {"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}
    reply = reply_of({"choices": [other]}, {"choices": [{"index": 0, **say}]}, {"choices": [other]})
    assert (reply.text, reply.finish_reason) == ("yes", "stop")


def test_a_message_behind_deltas_repeats_them() -> None:
    """Perplexity sends both; a message alone is the reply, and so is the text of a completion that is no chat."""
    both = {"choices": [{"delta": {"content": "yes"}, "message": {"content": "yes"}}]}
    last = {"choices": [{"delta": {}, "message": {"content": "yes"}, "finish_reason": "stop"}]}

    assert reply_of(both, last).text == "yes"
    assert reply_of(last).text == "yes"
    assert reply_of({"choices": [{"text": "ye"}]}, {"choices": [{"text": "s"}]}).text == "yes"


@pytest.mark.parametrize(
    ("chunks", "lost"),
    [
        ([{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}], True),
        ([calls({"index": 0, "id": "a", "function": {"arguments": TEXT}})], True),
        ([calls(part("git", "", index=0)), {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}], False),
        ([{"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]}], False),
    ],
)
def test_a_call_that_was_announced_and_did_not_come_is_lost(chunks: list[Any], lost: bool) -> None:
    """Also one without its name: neither is what the model wrote."""
    assert reply_of(*chunks).has_lost_call == lost


NAMES = [
    "choices",
    "delta",
    "message",
    "content",
    "tool_calls",
    "function",
    "name",
    "type",
    "text",
    "arguments",
    "args",
    "functionCall",
    "index",
    "usage",
    "prompt_tokens",
    "finish_reason",
    "thinking",
    "0",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=25,
)


@given(st.lists(JSON, max_size=4))
def test_whatever_an_endpoint_sends_is_a_reply_or_none(chunks: list[Any]) -> None:
    """Nothing but the four errors that its caller knows."""
    reply = StreamedReply()
    try:
        for chunk in chunks:
            reply.take(chunk)
        reply.end()
    except (TypeError, ValueError, AttributeError, ModelError):
        return
    assert isinstance(reply.text + reply.so_far + reply.refusal, str)


@given(st.integers(-(10**9), 10**9))
def test_a_whole_number_is_read_in_any_type(number: int) -> None:
    """As a number, as text, as a fraction of 1; anything else is none."""
    assert {whole_number(number), whole_number(str(number)), whole_number(float(number))} == {number}
    for other in ("", "x", "1.5", True, None, [], float("nan"), float("inf"), "9" * 5000):
        assert whole_number(other) is None
