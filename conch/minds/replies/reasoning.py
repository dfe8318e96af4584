"""Reasoning that a model writes into its reply, and the marks that models put around it. Pure.

The marks: `<think>` of DeepSeek and Qwen, with its other names; `<seed:think>` of Seed-OSS; `[THINK]` of Magistral;
`◁think▷` of Kimi; `<|START_THINKING|>` of Command; `<|begin_of_thought|>` of Sky-T1; channels of gpt-oss (harmony),
whole or without their special tokens; `<|channel>thought` of Gemma, `<unused94>` of MedGemma; `Here is my thought
process:` of Granite; `<details type="reasoning">` of Open WebUI. The mark of a reply's end, such as `<|im_end|>`, which
a server should have left out, is no part of the reply, and neither is the box of GLM.
"""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = (
    r"(?:(?:[\w-]{1,20}[:_-]|ant(?=T))?(?:think(?:ing)?|thoughts?|reason(?:ing)?)(?:[_-](?:process|steps?|trace|block))?"
    r"|(?:\w{1,20}:)?(?:reflection|analysis|scratchpad|(?:inner|internal)[_-]monologue|cot))"
)
_MARKS: Final = (
    rf"<{_NAMES}(?:\s[^<>]{{0,80}})?>",
    r"\[THINK\]",
    "◁think▷",
    r"<\|START_THINKING\|>",
    r"<\|begin_of_thought\|>",
    r"<\|channel>thought",
    r"<\|think(?:ing)?\|>",
    r"<unused94>(?:thought)?",
    r"<details type=\"reasoning\"[^<>]{0,200}>",
)
_OPENS: Final = re.compile("|".join(_MARKS), re.IGNORECASE)
_CLOSES: Final = re.compile(
    rf"</{_NAMES}\s*>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|end_of_thought\|>|<channel\|>"
    r"|<\|/think(?:ing)?\|>|<unused95>|</details>",
    re.IGNORECASE,
)
"""Any closes any other: `<thinking>…</think>`."""
_DETAILS: Final = "</details>"
"""A closing mark that is one only behind its opening one: it is HTML's."""
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
    r"<\|begin_of_box\|>(?P<boxed>.*?)(?:<\|end_of_box\|>)?|"
    r"<\|begin_of_solution\|>(?P<solution>.*?)(?:<\|end_of_solution\|>)?",
    re.DOTALL | re.IGNORECASE,
)
"""A reply that has marks of its own behind reasoning: Hunyuan's, ERNIE's, Command's, GLM's, Sky-T1's."""
_TURN: Final = re.compile(
    r"\s*(?:<\|(?:assistant|start_header_id\|>assistant<\|end_header_id)\|>|<start_of_turn>model)\s*"
)
"""The mark of the model's turn, where a server has sent it."""
_END_MARKS: Final = (
    *(
        f"<|{name}|>"
        for name in ("im_end", "eot_id", "eom_id", "end", "endoftext", "end_of_text", "end_of_turn", "user")
    ),
    *("<|END_OF_TURN_TOKEN|>", "</s>", "<eos>", "<end_of_turn>", "<｜end▁of▁sentence｜>", "[EOS]"),
)
"""Marks of a reply's end, by model families."""


def split_reasoning(text: str) -> tuple[str, str]:
    """(reasoning, reply). Reasoning is what stands between its marks at the beginning, what precedes a closing mark
    whose opening one the endpoint has left out, and what follows an opening mark that is not closed. Of a reply that
    begins as an action, or as a JSON object, nothing is taken but marks of its end. Linear time."""
    text = _without_marks(text)
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
    if not reasoning and not text.startswith("<|begin_of_box|>", at):
        return "", text
    reply = text[at:]
    if (answer := _ANSWERS.fullmatch(reply.rstrip())) is not None:
        reply = (answer["tagged"] or answer["spoken"] or answer["boxed"] or answer["solution"] or "").strip()
    return "".join(reasoning), reply


def _without_marks(text: str) -> str:
    """The text without the marks of the turn that a server should have left out."""
    if (turn := _TURN.match(text)) is not None:
        text = text[turn.end() :]
    while (whole := text.rstrip()).endswith(_END_MARKS):
        text = whole.removesuffix(next(mark for mark in _END_MARKS if whole.endswith(mark)))
    return text


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
    if closed is None or closed[0] == _DETAILS or _OPENS.search(text, at, closed.start()) is not None:
        return None
    return at, *closed.span()


def _split_channels(text: str) -> tuple[str, str]:
    before, mark, rest = text.partition("<|channel|>")
    messages = _CHANNEL.findall(mark + rest)
    reasoning = before + "".join(words for name, words in messages if name != "final")
    return reasoning, "".join(words for name, words in messages if name == "final").strip()
