"""Parses a sensor's payload into a value, or says why there is none. Pure."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from conch.text import well_formed
from conch_schemas import SenseValue
from conch_schemas.sense import MOST_TEXT

MOST_BYTES = 64 * 1024
"""Largest payload that is parsed, in bytes."""
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_NOT_FINITE = re.compile(r"[-+]?(?:nan(?:\(\w*\))?(?:\s?(?:%|°?\s?[CFK]))?|inf|infinity|1\.#\w+)", re.IGNORECASE)
"""How C, C++, Python and JavaScript print what is no finite number."""
_NO_VALUE = re.compile(
    r"none|nil|undef(?:ined)?|unavailable|unknown|[(<]?null[)>]?|#?n/?a|n\.a\.?|not[ _-]?available"
    r"|no[ _-]?(?:data|value|reading)|[-–—.?*_]+",
    re.IGNORECASE,
)
"""What hubs and scripts send in the place of a value while they have none. `offline` is not among these words: it is
the reading of a topic that says whether a device is there, whose other reading is `online`."""
_EDGES = "".join(chr(code) for code in range(0x3001) if chr(code).isspace()) + "\ufeff\0"
"""Characters that say nothing around a value: white space, a byte order mark, the NUL that ends a string in C."""


class NoReadingError(Exception):
    """A payload holds no reading. `reason`: its kind, a word for counting; the message is one sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class ParsedReading:
    """The value of a payload, and its id where it has one."""

    value: SenseValue
    id: str | None = None
    """For a CloudEvent: its source and id, the same whenever it comes again."""


def read(payload: bytes, path: str | None) -> ParsedReading:
    """The value at `path` of a JSON payload, or all of it: a number, a boolean or a text, as JSON or plain.

    White space, byte order marks and NULs around it are left out. A number with a decimal comma is a text.

    Raises NoReadingError for any other, and no other error; takes no longer than MOST_BYTES of JSON do.
    """
    if len(payload) > MOST_BYTES:
        _refuse("too_large", f"the payload has {len(payload)} bytes, {MOST_BYTES} are looked at")
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        _refuse("not_text", "the payload is no text (UTF-8)")
    text = text.strip(_EDGES)
    if not text:
        _refuse("empty", "the payload is empty")
    try:
        document = json.loads(text, parse_constant=float)
    except (ValueError, RecursionError):
        if path is not None:
            _refuse("not_json", f"the payload is not JSON, so nothing stands at {path}")
        if text[0] + text[-1] in ("{}", "[]"):
            _refuse("not_json", "the payload is an object or list, and not JSON")
        return ParsedReading(_plain(text))
    return ParsedReading(_value(document if path is None else _at(document, path)), _event_id(document))


def _plain(text: str) -> SenseValue:
    """The value of a text. The sign of minus that is no hyphen (U+2212) counts too."""
    text = "-" + text[1:] if text.startswith("\u2212") else text
    return _finite(float(text)) if _NUMBER.fullmatch(text) else _short(text)


def _value(found: Any) -> SenseValue:
    if found is None:
        _refuse("empty", "the value is null")
    if isinstance(found, dict | list):
        _refuse("not_a_value", "the value is a whole object or list: name a path into it")
    if isinstance(found, bool):
        return found
    if isinstance(found, int | float):
        return _finite(found)
    return _plain(str(found).strip(_EDGES))


def _finite(number: float) -> float:
    try:
        if math.isfinite(whole := float(number)):
            return whole
    except OverflowError:
        pass
    _refuse("not_finite", "the value is no finite number")


def _short(text: str) -> str:
    text = well_formed(text)
    if not text:
        _refuse("empty", "the value is an empty text")
    if _NOT_FINITE.fullmatch(text):
        _refuse("not_finite", "the value is no finite number")
    if _NO_VALUE.fullmatch(text):
        _refuse("no_value", f"the value says that there is none: {text[:20]}")
    if len(text.encode()) > MOST_TEXT:
        _refuse("too_long", f"the value is a text of more than {MOST_TEXT} bytes")
    return text


def _at(document: Any, path: str) -> Any:
    """The value at a path: keys, and indices of lists; a key that has dots itself is found whole."""
    if isinstance(document, dict) and path in document:
        return document[path]
    found = document
    for part in path.split("."):
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdecimal() and len(part) < 6 and int(part) < len(found):
            found = found[int(part)]
        else:
            _refuse("missing", f"nothing stands at {path}")
    return found


def _event_id(document: Any) -> str | None:
    """Other payloads' `id` is as often the device's as the message's: only a CloudEvent's can be trusted."""
    if not isinstance(document, dict) or "specversion" not in document:
        return None
    source, identity = document.get("source"), document.get("id")
    return f"{source} {identity}" if isinstance(source, str) and isinstance(identity, str) else None


def _refuse(reason: str, message: str) -> NoReturn:
    raise NoReadingError(reason, message)
