"""A decision that was cut off at its limit of tokens, and the question for the rest of it. Pure.

The rest is asked for once: the messages as before, the reply as far as it came as one of the assistant, and a request
to go on. Both parts together are one reply for the one parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pydantic import JsonValue

from conch.actions import Registry, parse
from conch.errors import ModelError
from conch.minds.dialect import without_fence
from conch.minds.protocol import Prompt
from conch.minds.replies.reasoning import split_reasoning
from conch.minds.replies.reply import StreamedReply
from conch.text import estimated_tokens
from conch_schemas import PromptMessage

GO_ON = (
    "Your reply was cut off at its limit of tokens. Go on exactly where it stops: write what comes next and nothing "
    "else, no word of it again."
)
GO_ON_CALL = (
    "Your call of {} was cut off at the limit of tokens; above are its arguments as far as they came, as JSON text. Go "
    "on with that text exactly where it stops: write what comes next and nothing else, no part of it again."
)
LEAST_TOKENS = 256
"""A rest of fewer tokens than this is not asked for."""
FRAMING_TOKENS = 64
"""Tokens of the request to go on and of the chat template around both messages, at most."""
BEGINNING = 40
"""Characters by which a rest is known that begins the reply anew."""
OVERLAP = 20, 400
"""Least and most characters of the reply's end that a rest may repeat."""
_FENCE = re.compile(r"\s*`{3,}[\w+-]*[ \t]*\r?\n")


@dataclass(frozen=True)
class CutReply:
    """A decision as far as it came."""

    head: str
    """Its text, or the arguments of its call as JSON text."""
    tool: str = ""
    """The tool that it calls; empty where it is a text."""

    def question(self, prompt: Prompt, most: int, window: int | None) -> Prompt | None:
        """The question for the rest, in at most `most` tokens; None where the model's window (tokens, None: not known)
        has no room for both parts."""
        if window is not None:
            most = min(most, window - prompt.tokens - estimated_tokens(self.head) - FRAMING_TOKENS)
        if most < LEAST_TOKENS:
            return None
        said = PromptMessage(role="assistant", content=self.head)
        asked = PromptMessage(role="user", content=GO_ON_CALL.format(self.tool) if self.tool else GO_ON)
        messages = (*prompt.messages, said, asked)
        return replace(prompt, messages=messages, max_tokens=most, registry=None, progress=None)

    def joined(self, rest: StreamedReply) -> StreamedReply:
        """Both parts as one reply, which ended as the rest did."""
        text = joined_text(self.head, split_reasoning(rest.text)[1])
        delta: dict[str, JsonValue] = {"content": text}
        if self.tool:
            delta = {"tool_calls": [{"index": 0, "function": {"name": self.tool, "arguments": text}}]}
        whole = StreamedReply(model=rest.model, finish_reason=rest.finish_reason)
        whole.take({"choices": [{"index": 0, "delta": delta}]})
        return whole


def cut_reply(prompt: Prompt, reply: StreamedReply) -> CutReply | None:
    """The decision that was cut off and may become an action by its rest; None for any other reply."""
    is_cut = reply.finish_reason == "length" and not reply.refusal
    if not is_cut or prompt.purpose != "decide" or prompt.registry is None or not prompt.may_go_on:
        return None
    if reply.call is not None:
        name, arguments = reply.call
        return CutReply(arguments, name) if name and arguments else None
    said = split_reasoning(reply.text)[1]
    return CutReply(said) if _is_begun(said, prompt.registry) else None


def _is_begun(text: str, registry: Registry) -> bool:
    """Whether a text is the beginning of a call, or of an object that may be one; a fence may be before it."""
    opened = _FENCE.match(text)
    said = text[opened.end() :] if opened is not None else text
    if said.lstrip().startswith("{"):
        return True
    begun = parse(said, registry)
    return begun.kind == "TOOL" and not begun.valid


def joined_text(head: str, rest: str) -> str:
    """A text and its rest as one. A rest that begins the text anew is the whole; one that repeats the text's end is
    taken without that; a fence around it is none of it. Raises ModelError for a rest that may repeat more or less of
    the end, such as a row of zeros: what is whole cannot be told."""
    rest = without_fence(rest) if _FENCE.match(rest) else rest
    anew = head.lstrip()[:BEGINNING]
    if len(anew) == BEGINNING and rest.lstrip().startswith(anew):
        return rest
    least, most = OVERLAP
    sizes = [size for size in range(least, min(most, len(head), len(rest)) + 1) if head.endswith(rest[:size])]
    if len(sizes) > 1:
        raise ModelError("the rest of a reply that was cut off repeats itself where it goes on, so it cannot be joined")
    return head + rest[sizes[0] if sizes else 0 :]
