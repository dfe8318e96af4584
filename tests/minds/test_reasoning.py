"""Reasoning in a reply, between the marks of the models that people use."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.minds.replies.reasoning import split_reasoning

ACTION = "DO_NOTHING: rest"
FINAL = "<|start|>assistant<|channel|>final<|message|>"


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("<think>Hm.</think>", ""),
        ("<think>\nTOOL: x\n</think>\n\n", ""),
        ("<think>Hm.</think><think>Well.</think>", ""),
        ("<think>a <think>b</think> c</think>", ""),
        ("<Think time='3'>Hm.</THINK>\n", ""),
        ("<thinking>Hm.</thinking> ", ""),
        ("<thinking>Hm.</think>", ""),
        ("<thought>Hm.</thought>", ""),
        ("<reasoning>Hm.</reasoning>", ""),
        ("<reasoning>I would close </think> here</reasoning>", ""),
        ("<analysis>Hm.</analysis>\n", ""),
        ("<longcat_think>Hm.</longcat_think>", ""),
        ("<antThinking>Hm.</antThinking>", ""),
        ("<internal_thoughts>Hm.</internal_thoughts>", ""),
        ("<thinking_process>Hm.</thinking_process>", ""),
        ("<chain-of-thought>Hm.</chain-of-thought>", ""),
        ("<inner_monologue>Hm.</inner_monologue>", ""),
        ("<|think|>Hm.<|/think|>", ""),
        ("<unused94>thought\nHm.<unused95>", ""),
        ('<details type="reasoning" done="true"><summary>Thought for 3 s</summary>Hm.</details>\n', ""),
        ("<think>Hm.</think>\n<|begin_of_box|>", "<|end_of_box|>"),
        ("<|assistant|>\n<think>Hm.</think>", "<|im_end|>"),
        ("<seed:think>Hm.</seed:think>", ""),
        ("[THINK]Hm.[/THINK]", ""),
        ("◁think▷Hm.◁/think▷", ""),
        ("<|channel|>analysis<|message|>Hm.<|end|>" + FINAL, "<|return|>"),
        ("<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>" + FINAL, ""),
        ("<|channel|>analysis<|message|>Hm.<|end|><|channel|>final <|constrain|>json<|message|>", ""),
        ("Hm.<|end|>" + FINAL, "<|return|>"),
        ("analysisThe user wants rest.assistantfinal", ""),
        ("<|channel>thought\nHm.\n<channel|>", ""),
        ("<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>", "<|END_RESPONSE|>"),
        ("<|begin_of_thought|>Hm.<|end_of_thought|>\n<|begin_of_solution|>", "<|end_of_solution|>"),
        ("<think>\n\n</think>\n<answer>\n", "\n</answer>"),
        ("<think>Hm.</think><response>", "</response>"),
        ("Here is my thought process: Hm.\nHere is my response: ", ""),
        ("The user wants rest.</think>\n", ""),
        ("The user wants rest.</reasoning>", ""),
        ("The user wants rest.[/THINK]", ""),
        ("The user wants rest.◁/think▷", ""),
        ("The user wants rest.<|END_THINKING|>", ""),
    ],
)
def test_what_stands_between_marks_of_reasoning_is_no_reply(before: str, behind: str) -> None:
    """With both marks, with the closing one alone, several behind each other, and with marks around the reply."""
    reasoning, reply = split_reasoning(before + ACTION + behind)

    assert reply == ACTION
    assert reasoning or "\n\n</think>" in before


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("", "<|im_end|>"),
        ("", "</s>"),
        ("", "<|eot_id|>\n"),
        ("", "<end_of_turn>\n<eos>"),
        ("", "<｜end▁of▁sentence｜>"),
        ("<|assistant|>\n", ""),
        ("<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
        ("<|begin_of_box|>", "<|end_of_box|>"),
    ],
)
def test_the_marks_of_a_turn_are_no_part_of_the_reply(before: str, behind: str) -> None:
    """A server should have left them out."""
    assert split_reasoning(before + ACTION + behind) == ("", ACTION)


@pytest.mark.parametrize("opens", ["<think>", "<reasoning>", "[THINK]", "◁think▷", "<|channel|>analysis<|message|>"])
def test_reasoning_that_is_not_closed_is_all_of_the_reply(opens: str) -> None:
    """The tokens were used up before the reply began."""
    assert split_reasoning(opens + "TOOL: shell(") == ("TOOL: shell(", "")


@pytest.mark.parametrize(
    "text",
    [
        ACTION,
        f'TOOL: notes(operation="remember", text="</think> [/THINK] {FINAL}")',
        '{"action": {"reflect": {"text": "</think>"}}}',
        "Sure! Here is my response: DO_NOTHING: rest",
        "Sure! <think>Hm.</think> DO_NOTHING: rest",
        "I would <b>rest</b> & think > 3",
        "<details>Hm.</details>DO_NOTHING: rest",
        "<rethink_plan>Hm.</rethink_plan>DO_NOTHING: rest",
        "<|im_end|> is a mark",
        "",
    ],
)
def test_text_without_reasoning_is_left_as_it_is(text: str) -> None:
    """An action or an object that speaks of marks; a preamble stays a fault of the model's."""
    assert split_reasoning(text) == ("", text)


PIECES = [
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<|channel|>",
    "final",
    "analysis",
    "{",
    "<answer>",
    "</answer>",
    "assistantfinal",
    "<|message|>",
    "<|end|>",
]


@given(st.lists(st.sampled_from([*PIECES, "x ", "\n"])))
def test_no_text_grows(pieces: list[str]) -> None:
    """Reasoning and reply are parts of the text, and the reply of a reply is itself, or a part."""
    text = "".join(pieces)
    reasoning, reply = split_reasoning(text)

    assert len(reasoning) + len(reply) <= len(text)
    assert reply in text or "<|channel|>" in text


@pytest.mark.parametrize(
    "text",
    [
        " " * 10**6, "</think>" * 10**5, "<think>" * 10**5, "<think></think>" * 10**5, "<|channel|>" * 10**5,
        "analysis" + "assistant" * 10**5, "<think>a</think><|START_TEXT|>" + " " * 10**6 + "x", "<" * 10**6,
        "<a:think " * 10**5, "<|channel|>x" + "<" * 10**6, "Here is my thought process:" * 40_000,
    ],
    ids=lambda text: text.strip()[:20],
)  # fmt: skip
def test_the_time_is_linear_in_the_text(text: str) -> None:
    """A megabyte of a small model's repetitions takes some milliseconds."""
    began = time.process_time()

    split_reasoning(text)

    assert time.process_time() - began < 2.0
