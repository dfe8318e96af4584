"""What an agent's mind has written of a reply that has not ended, and the answer in it. Pure."""

from __future__ import annotations

import json
import re
from typing import TypedDict

from conch.config import NO_SECRETS, Masker
from conch.cycle.hosting.questions import OpenQuestion
from conch.cycle.state.memory import AgentMemory

MOST_TEXT = 32_000
"""Most characters of a draft: one request has a reply of a megabyte at most."""
MOST_WRITTEN = 2_000
"""Most characters of what the mind has written so far, the newest."""

_REPLY = re.compile(r"\breply\b.*?\btext\b\"?\s*[=:]\s*(\"\"\"|\"|')", re.DOTALL)
"""The beginning of a call of `reply`, in the grammar, as an object of the schema, or as a tool's name and arguments."""
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class AnswerProgress(TypedDict):
    """What an agent does, and has of an answer for the message that waits, as JSON."""

    message: str | None
    """The id of the oldest message that waits; None: no message waits."""
    phase: str
    """think, decide, act or reflect; empty: none of them."""
    seconds: float
    """For how long the mind has been asked."""
    text: str
    """The answer as far as it has come."""
    cycle: int
    """The cycle that is open, or the next one."""
    written: str
    """The end of what the mind has written of the open reply; empty: nothing, or it gives replies in one piece."""


def drafted(memory: AgentMemory, question: OpenQuestion | None, masker: Masker = NO_SECRETS) -> AnswerProgress:
    """What an agent with this memory and this open question does, also for the oldest message that waits."""
    message = memory.waiting[0].id if memory.waiting else None
    acts = question is None and memory.decided is not None and memory.taken is None
    reply = question.progress.reply if question is not None else None
    written = masker.growing(reply.so_far) if reply is not None else ""
    answers = question is not None and question.phase == "decide" and message is not None
    return {
        "message": message,
        "phase": question.phase if question is not None else "act" if acts else "",
        "seconds": question.seconds if question is not None else 0.0,
        "text": answer_in(written)[:MOST_TEXT] if answers else "",
        "cycle": memory.next_cycle - (memory.thought is not None),
        "written": written[-MOST_WRITTEN:],
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
