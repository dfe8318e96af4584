"""The answer that an agent is about to give, read from a reply of its mind that has not ended. Pure."""

from __future__ import annotations

import json
import re
from typing import TypedDict

from conch.cycle.hosting.questions import OpenQuestion
from conch.cycle.state.memory import AgentMemory

MOST_TEXT = 32_000
"""Most characters of a draft: one request has a reply of a megabyte at most."""

_REPLY = re.compile(r"\breply\b.*?\btext\b\"?\s*[=:]\s*(\"\"\"|\"|')", re.DOTALL)
"""The beginning of a call of `reply`, in the grammar, as an object of the schema, or as a tool's name and arguments."""
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class AnswerProgress(TypedDict):
    """What an agent does for the message that waits, as JSON."""

    message: str | None
    """The id of the oldest message that waits; None: no message waits."""
    phase: str
    """think, decide, act or reflect; empty: none of them."""
    seconds: float
    """For how long the mind has been asked."""
    text: str
    """The answer as far as it has come."""


def drafted(memory: AgentMemory, question: OpenQuestion | None) -> AnswerProgress:
    """What an agent with this memory and this open question does for the oldest message that waits."""
    message = memory.waiting[0].id if memory.waiting else None
    acts = question is None and memory.decided is not None and memory.taken is None
    reply = question.progress.reply if question is not None and question.phase == "decide" else None
    return {
        "message": message,
        "phase": question.phase if question is not None else "act" if acts else "",
        "seconds": question.seconds if question is not None else 0.0,
        "text": answer_in(reply.so_far)[:MOST_TEXT] if reply is not None and message is not None else "",
    }


def answer_in(raw: str) -> str:
    """The text of the call of `reply` in the beginning of a mind's reply; empty where there is none yet.

    Longer beginnings of one reply give longer texts with the same beginning: an escape that is cut is left out.
    """
    found = _REPLY.search(raw)
    if found is None:
        return ""
    quote, text = found[1], raw[found.end() :]
    said: list[str] = []
    place = 0
    while place < len(text) and not text.startswith(quote, place):
        if quote == '"""' and text[place:] in ('"', '""'):
            break
        letter = text[place]
        if letter != "\\":
            said.append(letter)
            place += 1
            continue
        escape = text[place + 1 : place + 2]
        if escape == "u":
            code, place = text[place + 2 : place + 6], place + 6
            if len(code) < 4:
                break
            said.append(_unicode(code))
        elif escape:
            said.append(_ESCAPES.get(escape, escape))
            place += 2
        else:
            break
    if said and "\ud800" <= said[-1] <= "\udbff":
        said.pop()  # the first half of a character
    return "".join(said).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unicode(code: str) -> str:
    try:
        return str(json.loads(f'"\\u{code}"'))
    except ValueError:
        return "\ufffd"
