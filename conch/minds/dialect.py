"""Differences between OpenAI-compatible endpoints: refused fields, code fences. Pure.

The SDK of OpenAI knows its own endpoint alone; the others differ in what they refuse with status 400.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from conch.errors import AdapterError, ModelError
from conch.minds.protocol import AskedAdapter

REFUSED = frozenset({400, 422})
"""Statuses of an endpoint that does not take a part of the request."""
NO_SUCH_MODEL = 404
"""Status of an endpoint that does not know the model's name."""
RENAMED = {"max_tokens": "max_completion_tokens"}
"""Fields that reasoning models of OpenAI take by another name."""
OPTIONAL = ("max_tokens", "temperature", "stream_options", "stream", "system")
"""Parts that a request can do without. Without `stream` the reply comes as a whole; `system` is the role of the system
prompt, which then begins the question."""

_UNKNOWN = re.compile(
    r"unsupported|not support|unknown|unrecognized|unrecognised|unexpected|not permitted|not allowed|forbidden|"
    r"additional propert|extra (?:inputs?|fields?)|does not (?:accept|take)|invalid role|extraneous|only the default",
    re.IGNORECASE,
)
_TOO_MUCH = re.compile(r"too (?:large|long|high|many|big)|exceed|at most|maximum|less than|greater than", re.IGNORECASE)
"""A value that is refused, not the field."""
_SENTENCES = re.compile(r"[.;!]\s+|\n")
_NAMED = {
    "system": re.compile(
        r"messages\[0\]\.role|\bsystem (?:role|messages?)\b|\brole\b[^.]{0,40}\bsystem\b", re.IGNORECASE
    ),
    "stream": re.compile(r"(?<![\w-])stream(?:ing|ed)?(?![\w-])", re.IGNORECASE),
    **{field: re.compile(rf"(?<![\w-]){field}(?![\w-])") for field in OPTIONAL if field not in ("system", "stream")},
}
_FENCE = re.compile(r"(`{3,})[\w+-]*[ \t]*\r?\n")
_TICKED = re.compile(r"\s*(`+)([^`\n]+)\1\s*")


@dataclass(frozen=True)
class RequestForm:
    """The parts that an endpoint's model has refused, and is asked without."""

    refused: frozenset[str] = frozenset()

    def body(self, request: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The request in this form: refused fields left out, or under their other name."""
        found: dict[str, JsonValue] = {}
        if "stream" in self.refused:  # its options have no meaning without it
            request = {name: value for name, value in request.items() if name != "stream_options"}
        for name, value in request.items():
            if name not in self.refused:
                found[name] = value
            elif name in RENAMED:
                found[RENAMED[name]] = value
        return found

    def plainer(self, refusal: ModelError) -> RequestForm | None:
        """The form without the part that `refusal` names; None where it names none, or one that is left out already."""
        if refusal.status not in REFUSED:
            return None
        for sentence in _SENTENCES.split(refusal.detail):
            if not _UNKNOWN.search(sentence) or _TOO_MUCH.search(sentence):
                continue
            for part in OPTIONAL:
                if part not in self.refused and _NAMED[part].search(sentence):
                    return RequestForm(self.refused | {part})
        return None


def refuse_unknown(asked: AskedAdapter | None, refusal: ModelError) -> None:
    """Raises AdapterError where an endpoint refused a request as it does not know the adapter that was asked for."""
    if asked is None or refusal.status is None:
        return
    if refusal.status == NO_SUCH_MODEL or (refusal.status in REFUSED and asked.served_as in refusal.detail):
        sentence = f"the adapter {asked.served_as} is not served: {refusal}"
        raise AdapterError(sentence, status=NO_SUCH_MODEL, detail=refusal.detail) from None


def refuse_other(asked: AskedAdapter | None, replied_as: str) -> None:
    """Raises AdapterError for a reply that names another model than the adapter that was asked for."""
    if asked is not None and asked.is_echoed and replied_as != asked.served_as:
        raise AdapterError(f"the endpoint was asked for {asked.served_as} and replied as {replied_as or 'no model'}")


def own_fields(extra: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The user's own fields of a request. A text that is JSON counts as its value: the file's values are all texts."""
    return {name: _as_json(value) for name, value in extra.items()}


def _as_json(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return own_fields(value)
    if isinstance(value, list):
        return [_as_json(one) for one in value]
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            found: JsonValue = json.loads(value)
            return found
    return value


def without_fence(text: str) -> str:
    """The text inside the code fence or the backticks that are around all of it; else the text as it is."""
    whole = text.strip()
    opened = _FENCE.match(whole)
    if opened and whole.endswith(opened[1]) and len(whole) >= opened.end() + len(opened[1]):
        return whole[opened.end() : -len(opened[1])].rstrip(" \t").removesuffix("\n").removesuffix("\r")
    found = _TICKED.fullmatch(text)
    return found[2] if found else text
