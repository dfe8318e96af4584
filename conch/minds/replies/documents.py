"""The JSON documents in the body of a reply, by what the body holds and not by its label: server-sent events, one JSON
document, or JSON Lines. Pure.

Event streams as WHATWG's HTML standard describes them, section 9.2.6, read generously: a stream that breaks its rules
would otherwise lose a part of the reply without a word. So blanks and byte order marks before a field are passed over,
and so is a second `data:`; an event without the blank line behind it, and a line of JSON without a field, are taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from conch.errors import ModelError

MAX_DOCUMENT: Final = 4 * 1024 * 1024
"""Most characters of an event, and of a body that is not a stream."""
_BLANKS: Final = "\ufeff \t\r\n"
_BLANK_RUN: Final = re.compile(f"[{_BLANKS}]*")
_FIELD: Final = re.compile(r"(?:data|event|id|retry)[ \t]*:|:", re.IGNORECASE)
_LONGEST_FIELD: Final = 16
"""Characters after which it is known whether a body begins with a field of an event."""
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ENDS: Final = "[done]"
_ALIVE: Final = re.compile(r":.*|\[?(?:ping|heartbeat|keep[-_ ]?alive)\]?|null", re.IGNORECASE)
"""Data that only keeps a connection alive."""

BodyKind = Literal["unknown", "events", "json", "other"]


class ReplyDocument(NamedTuple):
    """A document, its text, and the name of the event that held it."""

    value: JsonValue
    text: str
    event: str = ""


class ReplyDocuments:
    """Takes the text of a body as it arrives, and gives its documents."""

    def __init__(self, label: str) -> None:
        """`label`: the body's content type. It counts where the body itself does not say what it is."""
        self.kind: BodyKind = "unknown"
        """What the body holds. `unknown`: nothing came but white space; `other`: no documents."""
        self.is_ended = False
        """Whether the body said by `[DONE]` that nothing follows."""
        self._label = label
        self._text = ""
        """What came and was not read yet."""
        self._parts: list[str] = []
        """The parts of a JSON body."""
        self._size = 0
        self._data: list[str] = []
        """The lines of data of the open event."""
        self._event = ""

    def feed(self, text: str) -> Iterator[ReplyDocument]:
        """The documents that are whole by now. Raises ValueError for data that is none, ModelError for a document that
        is longer than MAX_DOCUMENT."""
        if self.kind == "json":
            self._keep(text)
            return
        self._text += text
        if self.kind == "unknown":
            self._recognize(whole=False)
        if self.kind == "events":
            yield from self._lines()

    def end(self) -> Iterator[ReplyDocument]:
        """The last documents, when the body has ended. Raises as `feed` does."""
        if self.kind == "unknown":
            self._recognize(whole=True)
        if self.kind == "json":
            yield from self._documents("".join(self._parts))
        elif self.kind == "events":
            self._text += "\n\n"  # the last event counts, also where its blank line is missing
            yield from self._lines()

    def _recognize(self, *, whole: bool) -> None:
        """Settle the kind where enough of the body is there. `whole`: all of it is there."""
        begins = self._text.lstrip(_BLANKS)
        if not begins:
            self._text = ""
            return
        is_end = _ENDS.startswith(begins[: len(_ENDS)].lower())
        if is_end and len(begins) < len(_ENDS) and not whole:
            return
        if begins[0] in "{[" and not is_end:
            self.kind = "json"
            self._keep(begins)
        elif self._label == "text/event-stream" or is_end or _FIELD.match(begins):
            self.kind = "events"
        elif whole or len(begins) >= _LONGEST_FIELD:
            self.kind = "other"

    def _keep(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)
        _refuse_longer(self._size)

    def _documents(self, text: str) -> Iterator[ReplyDocument]:
        """The documents of a JSON body: one, or several behind each other."""
        decoder, at, text = json.JSONDecoder(), 0, text.strip(_BLANKS)
        while at < len(text):
            if text[at : at + len(_ENDS)].lower() == _ENDS:
                self.is_ended = True
                return
            value, end = decoder.raw_decode(text, at)
            yield ReplyDocument(value, text[at:end])
            at = _BLANK_RUN.match(text, end).end()  # type: ignore[union-attr] # it matches the empty text too

    def _lines(self) -> Iterator[ReplyDocument]:
        """The documents of the whole lines. A CR at the end waits for the LF that may follow."""
        at, most = 0, len(self._text) - self._text.endswith("\r")
        while not self.is_ended and (end := _LINE_END.search(self._text, at, most)) is not None:
            line, at = self._text[at : end.start()], end.end()
            yield from self._line(line)
        self._text = self._text[at:]
        _refuse_longer(len(self._text) + self._size)

    def _line(self, line: str) -> Iterator[ReplyDocument]:
        line = line.strip(_BLANKS)
        if not line:
            yield from self._dispatch()
            return
        if line[0] == "{" or line.lower() == _ENDS:  # a document without its field
            name, value = "data", line
        else:
            name, _, value = line.partition(":")
        name, value = name.strip().lower(), value.strip(_BLANKS)
        if name == "event":
            self._event = value
        elif name == "data":
            while value.startswith("data:"):
                value = value[len("data:") :].strip(_BLANKS)
            yield from self._line_of_data(value)

    def _line_of_data(self, value: str) -> Iterator[ReplyDocument]:
        """A document that stands on one line counts at once: the blank line behind it may be missing."""
        if not self._data and value.strip('"[]').lower() == "done":
            self.is_ended = True
        elif not self._data and (found := _object_in(value)) is not None:
            yield ReplyDocument(found, value, self._event)
        elif value:
            self._data.append(value)
            self._size += len(value)
            _refuse_longer(self._size)

    def _dispatch(self) -> Iterator[ReplyDocument]:
        data, event = "\n".join(self._data), self._event
        self._data, self._size, self._event = [], 0, ""
        if not data or _ALIVE.fullmatch(data):
            return
        if event.lower() == "error":
            yield ReplyDocument(_object_in(data) or {"error": data}, data, event)
            return
        for document in self._documents(data):
            yield document._replace(event=event)


def _object_in(line: str) -> JsonValue:
    """The JSON object that the line is; None where it is none."""
    if not line.startswith("{"):
        return None
    try:
        found: JsonValue = json.loads(line)
    except ValueError:
        return None
    return found


def _refuse_longer(size: int) -> None:
    if size > MAX_DOCUMENT:
        raise ModelError(
            f"an event or a document of the reply goes on past {MAX_DOCUMENT} characters; it was left there",
            unread=True,
        )
