"""The words of an error, in the documents in which endpoints send one. Pure."""

from __future__ import annotations

import json
import re
from typing import Final

from pydantic import JsonValue

from conch.minds.replies.documents import ReplyDocument

_FIELDS: Final = ("error", "message", "detail", "error_message", "msg", "errors", "base_resp", "status_msg")
"""Names of an error's words, or of an object with them: OpenAI's, FastAPI's (`detail` with `msg`), gateways'."""
_TITLE: Final = re.compile(r"<title[^>]{0,200}>([^<]{1,300})</title>", re.IGNORECASE)
_DEEPEST: Final = 5


def error_words(body: str) -> str:
    """The words of the error in a body: of its JSON document, or the title of its page; else the body unchanged."""
    try:
        return words_in(json.loads(body)) or body
    except (ValueError, RecursionError):
        title = _TITLE.search(body)
        return body if title is None else title[1]


def words_in(document: JsonValue, depth: int = _DEEPEST) -> str:
    """The words of an error in a document; empty where it has none. Gemini sends a list with the error's object."""
    if isinstance(document, list):
        return "; ".join(filter(None, (words_in(part, depth - 1) for part in document[:3]))) if depth else ""
    if not isinstance(document, dict) or not depth:
        return document if isinstance(document, str) else ""
    return next((words for name in _FIELDS if (words := words_in(document.get(name), depth - 1))), "")


def error_in(document: ReplyDocument) -> str | None:
    """The words of an error that came in place of a part of a reply; None where the document is no error.

    OpenRouter puts it into the choice; FastChat and older vLLM name the object; others name the event.
    """
    value = document.value
    if not isinstance(value, dict):
        return None
    choices = value.get("choices")
    within = [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
    error = value.get("error") or next((choice["error"] for choice in within if choice.get("error")), None)
    if not choices and not error and value.get("code", 0) not in (0, 200, "0", "200", None):
        error = words_in(value)  # of gateways in China: a code and its words
    base = value.get("base_resp")  # MiniMax's
    if not error and isinstance(base, dict) and base.get("status_code") not in (0, None):
        error = base
    if error or document.event.lower() == "error" or "error" in (value.get("object"), value.get("type")):
        return words_in(error) or words_in(value) or document.text
    return None
