"""The reply of a chat completion, put together from its chunks, in whatever JSON types an endpoint sends them. Pure.

OpenAI's API reference has one type for each value. Others send the same values in other types: Mistral's reasoning
models send `content` as a list of parts (BerriAI/litellm#16272), llama.cpp and TGI have sent `arguments` as an object
(ggml-org/llama.cpp#20198, huggingface/text-generation-inference#2461). A value whose meaning is clear is taken; for any
other the reply cannot be read, which is the endpoint's doing and not the model's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from conch.errors import ModelError
from conch.minds.replies.calls import ToolCallParts, is_call, listed_calls, whole_number
from conch.text import well_formed
from conch_schemas import JsonObject, Usage

MAX_REPLY: Final = 1024 * 1024
"""Most characters of a reply."""
MAX_REFUSAL: Final = 1000
"""Most characters of a refusal that are kept."""

_ENDS: Final = {
    "stop": "stop end_turn eos eos_token end_of_text stop_sequence stop_token complete completed done finished",
    "length": "length max_tokens max_length model_length max_output_tokens max_completion_tokens max_new_tokens "
    "token_limit model_context_window_exceeded",
    "tool_calls": "tool_calls tool_call tool_use function_call function_calls",
    "content_filter": "content_filter content_filtered safety recitation blocklist prohibited_content spii sensitive "
    "guardrail_intervened image_safety moderation",
    "refusal": "refusal",
    "error": "error network_error insufficient_system_resource abort aborted cancelled canceled timeout failed "
    "server_error internal_error overloaded",
    "": "null none unspecified",
}
"""Names of the reasons for which a reply ended, by OpenAI's name: those of Anthropic, Gemini, Mistral, vLLM, TGI, GLM
and DeepSeek. `error`: it was broken off; the empty name: it has not ended."""
_END_BY_NAME: Final = {name: end for end, names in _ENDS.items() for name in names.split()}

_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "thinking", "thought", "reasoning_details")
"""Names of the reasoning beside a reply. The first that has any counts: OpenRouter sends it twice."""
_REASONING_PARTS: Final = frozenset({
    "thinking", "redacted_thinking", "reasoning", "reasoning_text", "reasoning_content", "summary_text", "thought",
})  # fmt: skip
_TEXT_PARTS: Final = frozenset({"text", "output_text", "text_delta"})
_CALL_PARTS: Final = frozenset({"tool_use", "tool_call", "function", "function_call"})
_WORDS: Final = ("text", "thinking", "reasoning", "content", "summary", "refusal", "value", "message")
"""Fields of a part that hold its words."""


@dataclass
class StreamedReply:
    """A reply that grows chunk by chunk."""

    parts: list[str] = field(default_factory=list)
    size: int = 0
    finish_reason: str | None = None
    """By OpenAI's name, where it has one there."""
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    refusal: str = ""
    """What the model said when it refused, where the endpoint tells that apart."""
    reasoned: int = 0
    """Characters of reasoning that came beside the reply."""
    counted: bool = False
    """Whether the endpoint counted the tokens."""
    cached: int = 0
    """Tokens of the prompt that the endpoint had in its cache, where it says so."""
    logprob: float | None = None
    """Sum of the log probabilities of its tokens, where the endpoint reports them."""
    is_message: bool = False
    """Whether it came as a message, which is whole, and not in parts."""
    _calls: ToolCallParts = field(default_factory=ToolCallParts)
    _choice: int | None = None
    """Index of the choice that it is: the least one that came."""
    _has_deltas: bool = False

    @property
    def call(self) -> tuple[str, str] | None:
        """The first call of a tool: its name, and its arguments as JSON text."""
        return self._calls.first

    @property
    def text(self) -> str:
        """Its content as text: a surrogate pair may be split over two chunks, a byte order mark is no part of it."""
        return well_formed("".join(self.parts)).removeprefix("\ufeff")

    @property
    def so_far(self) -> str:
        """The reply's text as far as it has come, else the call of a tool in it; without reasoning beside it."""
        return "".join(self.parts) or " ".join(self.call or ())

    @property
    def is_empty(self) -> bool:
        """Whether the model has said nothing: no text, no call, no refusal."""
        return not (any(self.parts) or self.refusal or self.call)

    @property
    def has_lost_call(self) -> bool:
        """Whether the endpoint says that the model called a tool, and sent no call, or one without a name."""
        call = self.call
        return self.finish_reason == "tool_calls" if call is None else not call[0]

    def take(self, chunk: JsonValue) -> None:
        """Append a chunk, a whole completion, or a list of them. Raises ModelError for a reply that is too long or was
        broken off.

        Anything that is not shaped like a completion raises TypeError, AttributeError or ValueError.
        """
        if isinstance(chunk, list):
            for part in chunk:
                self.take(part)
            return
        if not isinstance(chunk, dict):
            raise TypeError("a chunk is no object")
        if isinstance(model := chunk.get("model"), str) and model:
            self.model = model[:200]
        self._count(chunk.get("usage"))
        for choice in _listed_choices(chunk.get("choices")):
            if self._is_choice(whole_number(choice.get("index")) or 0):
                self._say(self._said(choice))
                self._finish(choice.get("finish_reason"))
                self._add_logprobs(choice.get("logprobs"))

    def end(self) -> None:
        """Take it that the reply has ended, where nothing else said so."""
        if self.finish_reason is None and not self.is_empty:
            self.finish_reason = "tool_calls" if self.call else "stop"

    def _count(self, usage: JsonValue) -> None:
        if not isinstance(usage, dict):
            return
        said, written = (
            max(0, whole_number(usage.get(f"{name}_tokens")) or whole_number(usage.get(f"{other}_tokens")) or 0)
            for name, other in (("prompt", "input"), ("completion", "output"))
        )
        if said or written:
            details = usage.get("prompt_tokens_details")
            cached = whole_number(details.get("cached_tokens")) if isinstance(details, dict) else None
            self.counted, self.cached = bool(said), max(0, cached or 0)
            self.usage = Usage(input_tokens=said, output_tokens=written)

    def _is_choice(self, index: int) -> bool:
        """Whether a choice is the one that counts. Others were not requested; a lesser index replaces what came."""
        if self._choice is not None and index < self._choice:
            self.parts, self.size, self._calls, self.refusal = [], 0, ToolCallParts(), ""
            self.finish_reason, self.reasoned, self.logprob = None, 0, None
            self.is_message = self._has_deltas = False
        if self._choice is None or index < self._choice:
            self._choice = index
        return index == self._choice

    def _said(self, choice: JsonObject) -> JsonValue:
        """What a choice adds: its delta, else its message, else its text, as of completions that are no chat. A message
        behind deltas repeats them."""
        delta: JsonValue = choice.get("delta")
        message: JsonValue = choice.get("message")
        if delta:
            self._has_deltas = True
            return delta
        if self._has_deltas and not self.is_empty:
            return None
        if message is not None:
            self.is_message = True
            return message
        return {"content": choice.get("text")}

    def _say(self, said: JsonValue) -> None:
        if said is None:
            return
        if isinstance(said, str):
            said = {"content": said}
        if not isinstance(said, dict):
            raise TypeError("a message is no object")
        self._reason(next((said[name] for name in _REASONING_FIELDS if said.get(name)), None))
        self._refuse(said.get("refusal"))
        content = said.get("content")
        self._add(said.get("text") if content in (None, "", []) else content)
        for call in listed_calls(said.get("tool_calls") or said.get("function_call") or said.get("functionCall")):
            self._bound(self._calls.take(call))

    def _finish(self, reason: JsonValue) -> None:
        if isinstance(reason, dict):
            reason = reason.get("type") or reason.get("reason")
        if not reason:
            return
        name = str(reason)[:80]
        end = _END_BY_NAME.get(
            name.strip().lower().replace("-", "_").removeprefix("finish_reason_").removeprefix("finishreason."), name
        )
        if end == "error":
            raise ModelError(f"the endpoint broke off its reply: {name}", unread=True)
        self.finish_reason = end or self.finish_reason

    def _add_logprobs(self, logprobs: JsonValue) -> None:
        tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
        for token in tokens if isinstance(tokens, list) else ():
            value = str(token.get("logprob")) if isinstance(token, dict) else ""
            try:
                self.logprob = (self.logprob or 0.0) + float(value)
            except ValueError:  # the probability of the reply is not known then
                self.logprob = math.nan

    def _reason(self, reasoning: JsonValue) -> None:
        self.reasoned += len(_words(reasoning))
        if self.reasoned > MAX_REPLY:
            raise ModelError(
                f"the endpoint's reasoning goes on past {MAX_REPLY} characters; it was left there", unread=True
            )

    def _refuse(self, refusal: JsonValue) -> None:
        self.refusal = (self.refusal + _words(refusal))[:MAX_REFUSAL]

    def _add(self, content: JsonValue) -> None:
        if content is None or content is False:  # a chunk with only a role, a tool call or reasoning
            return
        if content is True:
            raise TypeError("content is no text")
        if isinstance(content, list):
            for part in content:
                self._add(part)
        elif isinstance(content, dict):
            self._add_part(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            self.parts.append(text)
            self._bound(len(text))

    def _add_part(self, part: JsonObject) -> None:
        kind = part.get("type")
        if kind in _CALL_PARTS or (kind is None and is_call(part)):
            self._bound(self._calls.take(part))
        elif kind in _REASONING_PARTS or part.get("thought") is True:
            self._reason(part)
        elif kind == "refusal":
            self._refuse(part)
        elif "text" in part or kind in _TEXT_PARTS:
            text = part.get("text")
            self._add(_words(part) if text is None or isinstance(text, dict) else text)
        elif "thinking" in part:
            self._reason(part)
        elif kind is None and part.keys() & {"parts", "content"} and part.keys() <= {"parts", "content", "role"}:
            self._add(part.get("parts") or part.get("content"))
        elif kind is None:  # a gateway has read the text, which was JSON
            self._add(json.dumps(part, ensure_ascii=False))
        # Others are no text: a picture, a reference.

    def _bound(self, more: int) -> None:
        self.size += more
        if self.size > MAX_REPLY:
            raise ModelError(
                f"the endpoint's reply goes on past {MAX_REPLY} characters; it was left there", unread=True
            )


def _listed_choices(choices: JsonValue) -> Iterator[JsonObject]:
    """The choices in a list; one choice; choices by their index. Raises TypeError for anything else."""
    if isinstance(choices, dict):
        is_one = choices.keys() & {"delta", "message", "text"}
        choices = [choices] if is_one else list(choices.values())
    for choice in choices or ():  # type: ignore[union-attr] # what cannot be iterated raises TypeError
        if not isinstance(choice, dict):
            raise TypeError("a choice is no object")
        yield choice


def _words(value: JsonValue) -> str:
    """The words in a text, a part, or a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(_words, value))
    if isinstance(value, dict):
        return next((words for name in _WORDS if (words := _words(value.get(name)))), "")
    return ""
