"""Reasoning that a model writes into its reply, and the marks that models put around it. Pure.

The marks: `<think>` of DeepSeek and Qwen, with its other names; `<seed:think>` of Seed-OSS; `[THINK]` of Magistral;
`◁think▷` of Kimi; `<|START_THINKING|>` of Command; `<|begin_of_thought|>` of Sky-T1; channels of gpt-oss (harmony),
whole or without their special tokens; `<|channel>thought` of Gemma; `Here is my thought process:` of Granite.
"""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = r"(?:\w{1,20}:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad)"
_MARKS: Final = (
    rf"<{_NAMES}(?:\s[^<>]{{0,80}})?>",
    r"\[THINK\]",
    "◁think▷",
    r"<\|START_THINKING\|>",
    r"<\|begin_of_thought\|>",
    r"<\|channel>thought",
)
_OPENS: Final = re.compile("|".join(_MARKS), re.IGNORECASE)
_CLOSES: Final = re.compile(
    rf"</{_NAMES}\s*>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|end_of_thought\|>|<channel\|>", re.IGNORECASE
)
"""Any closes any other: `<thinking>…</think>`."""
_BLANKS: Final = re.compile(r"\s*")
_REPLY: Final = re.compile(r"(?:TOOL|DO_NOTHING|REFLECT):|\{", re.IGNORECASE | re.ASCII)
"""The beginning of an action, or of a JSON object."""
_WORDED: Final = re.compile(
    r"analysis(?P<bare>.*?)assistant\s?final(?P<final>.*)|"
    r"Here(?:'s| is) my thought process:(?P<process>.*?)Here(?:'s| is) my response:(?P<response>.*)",
    re.DOTALL,
)
"""Channels of gpt-oss where a server has left out the special tokens; Granite's sentences."""
_CHANNELED: Final = re.compile(r"(?:<\|start\|>assistant)?<\|channel\|>")
_FINAL: Final = "<|channel|>final"
_CHANNEL: Final = re.compile(
    r"<\|channel\|>\s{0,9}(\w+)[^<]*(?:<\|constrain\|>[^<]*)?(?:<\|message\|>)?"
    r"((?:(?!<\|(?:end|return|call|start|channel)\|>).)*)",
    re.DOTALL,
)
"""A message in a channel of gpt-oss: the channel's name, and the words."""
_ANSWERS: Final = re.compile(
    r"<(answer|response|output|final)>(?P<tagged>.*)</\1>|"
    r"<\|START_(?:RESPONSE|TEXT)\|>(?P<spoken>.*?)(?:<\|END_(?:RESPONSE|TEXT)\|>)?|"
    r"<\|begin_of_solution\|>(?P<solution>.*?)(?:<\|end_of_solution\|>)?",
    re.DOTALL | re.IGNORECASE,
)
"""A reply that has marks of its own behind reasoning: Hunyuan's, ERNIE's, Command's, Sky-T1's."""


def split_reasoning(text: str) -> tuple[str, str]:
    """(reasoning, reply). Reasoning is what stands between its marks at the beginning, what precedes a closing mark
    whose opening one the endpoint has left out, and what follows an opening mark that is not closed. Of a reply that
    begins as an action, or as a JSON object, nothing is taken. Linear time."""
    at = _after_blanks(text, 0)
    if _REPLY.match(text, at):
        return "", text
    if _CHANNELED.match(text, at) or _FINAL in text:
        return _split_channels(text)
    if (worded := _WORDED.fullmatch(text, at)) is not None:
        return worded["bare"] or worded["process"] or "", (worded["final"] or worded["response"] or "").strip()
    reasoning: list[str] = []
    while not _REPLY.match(text, at) and (place := _first_reasoning(text, at)) is not None:
        start, end, after = place
        reasoning.append(text[start:end])
        at = _after_blanks(text, after)
    if not reasoning:
        return "", text
    reply = text[at:]
    if (answer := _ANSWERS.fullmatch(reply.rstrip())) is not None:
        reply = (answer["tagged"] or answer["spoken"] or answer["solution"] or "").strip()
    return "".join(reasoning), reply


def _after_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return at if blanks is None else blanks.end()


def _first_reasoning(text: str, at: int) -> tuple[int, int, int] | None:
    """Where the reasoning that begins at `at` starts and ends, and where what follows its mark starts; None: there is
    none."""
    opened, closed = _OPENS.match(text, at), None
    if opened is not None:
        closed = _CLOSES.search(text, opened.end())
        return (opened.end(), len(text), len(text)) if closed is None else (opened.end(), *closed.span())
    closed = _CLOSES.search(text, at)
    if closed is None or _OPENS.search(text, at, closed.start()) is not None:
        return None
    return at, *closed.span()


def _split_channels(text: str) -> tuple[str, str]:
    before, mark, rest = text.partition("<|channel|>")
    messages = _CHANNEL.findall(mark + rest)
    reasoning = before + "".join(words for name, words in messages if name != "final")
    return reasoning, "".join(words for name, words in messages if name == "final").strip()
