"""Text from untrusted sources: made safe to show, shortened for events, normalised to fingerprints."""

from __future__ import annotations

import codecs
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from conch_schemas import Cut

CUT_BYTES = 64 * 1024
"""Most bytes of a text in an event, once encoded as JSON."""

_SHOWN_BADLY = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udfff]"
)
BYTES_PER_TOKEN = 3
"""UTF-8 bytes that the estimate counts as one token. Tokenizers of models take 4 to 4.5 bytes of English, 3 to 4
of code, about 3 of Chinese: the estimate is on the high side, so that a prompt keeps to its budget."""
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def estimated_tokens(text: str) -> int:
    """Tokens of `text` by the estimate of BYTES_PER_TOKEN, rounded up."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_PER_TOKEN)


def safe_text(text: str, *, one_line: bool = False) -> str:
    """`text` with control characters, escape sequences' starts and direction marks replaced by `�`.

    Keeps line ends and tabs, or with `one_line` turns each run of white space into one blank. Markup is not touched:
    show the result as text (rich's `Text`, a page's `textContent`), never as markup.
    """
    if one_line:
        return _SHOWN_BADLY.sub("�", " ".join(text.split()))
    return _SHOWN_BADLY.sub("�", _LINE_ENDS.sub("\n", text))


def clipped(text: str, most: int) -> str:
    """`text`, or its head of at most `most` characters, which ends behind a word with `…` in place of a comma or the
    like. A word that is longer than half of the head is cut."""
    if len(text) <= most:
        return text
    head = text[: most - 1]
    behind = head if text[most - 1].isspace() else head.rpartition(" ")[0]
    kept = behind if len(behind) >= most // 2 else head
    return kept.rstrip(" \n\t,;:") + "…"


NEAR = 0.5
"""Similarity, 0 to 1, from which a name may be the intended one."""
NAMED = 20
"""Most names that are listed."""


def instead(name: str, known: Iterable[str]) -> str:
    """A suggestion for an unknown name, for the end of a sentence: the nearest known one, otherwise all of them."""
    import difflib  # imported only for an error

    there = sorted(set(known))
    if near := difflib.get_close_matches(name, there, n=1, cutoff=NEAR):
        return f"the nearest name is {near[0]}"
    listed = ", ".join(there[:NAMED]) + (", …" if len(there) > NAMED else "")
    return f"there is {listed}" if listed else "there is none"


_ESCAPES = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")


def without_escapes(text: str) -> str:
    """`text` without colours, titles and other terminal escape sequences. Linear time."""
    return _ESCAPES.sub("", text)


def _encoded(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def _longest(text: str, room: int, *, tail: bool) -> str:
    """The longest head (or tail) of `text` with at most `room` bytes encoded: by bisection."""
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        if _encoded(text[-middle:] if tail else text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return (text[-low:] if tail else text[:low]) if low else ""


_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def begins_with_mark(data: bytes) -> bool:
    """Whether `data` begins with a byte order mark of UTF-8 or UTF-16."""
    return data.startswith((codecs.BOM_UTF8, *_UTF16_MARKS))


def text_decoder(begins: bytes) -> codecs.IncrementalDecoder:
    """A decoder of text from outside, whose first two bytes or more are `begins`: UTF-8, or UTF-16 where a byte order
    mark says so. It drops the mark, and replaces what it cannot decode."""
    encoding = "utf-16" if begins.startswith(_UTF16_MARKS) else "utf-8-sig"
    return codecs.getincrementaldecoder(encoding)("replace")


def decoded(data: bytes) -> str:
    """The text that `data` is, as `text_decoder` reads it."""
    return text_decoder(data).decode(data, final=True)


def well_formed(text: str) -> str:
    """`text` without lone surrogates (they cannot be encoded as UTF-8): each becomes `�`."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not _is_utf8(text) else text


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def cut(text: str, limit: int = CUT_BYTES) -> Cut:
    """Head and tail of `text` in at most `limit` bytes once encoded, with the whole's length and digest.

    Cut by encoded size: a NUL takes six bytes in JSON. Lone surrogates are replaced first.
    """
    text = well_formed(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    if len(text) <= limit and _encoded(text) <= limit:
        return Cut(text=text, length=len(text), sha256=digest)
    room = (limit - 80) // 2
    head, tail = _longest(text, room, tail=False), _longest(text, room, tail=True)
    shown = f"{head}\n[… {len(text) - len(head) - len(tail)} characters left out …]\n{tail}"
    return Cut(text=shown, length=len(text), sha256=digest)


_MASKS = (
    ("-", r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
    ("", r"\b(?=[0-9a-f]{7,64}\b)(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]+", "<id>"),
    ("-", r"\b\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?:z|[+-]\d\d:?\d\d)?", "<time>"),
    (":", r"\b\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?\b", "<time>"),
    ("", r"\d+(?:\.\d+)?", "<n>"),
)
"""(a character that every match contains, pattern, replacement), applied in order. All but the first need a digit."""
_MASKS_OF_ANY = tuple((sign, re.compile(pattern), mask) for sign, pattern, mask in _MASKS)
_MASKS_OF_ASCII = tuple((sign, re.compile(pattern, re.ASCII), mask) for sign, pattern, mask in _MASKS)
_DIGIT = re.compile(r"\d")
_SHORT = 4096
"""Longest text with a cached fingerprint: several consumers compute it for the same text."""


def fingerprint(text: str) -> str:
    """16 hex digits that two texts share when they differ only in case, white space, numbers, ids and times.

    One pure function for novelty, repetition and new information. Only the first 64 KiB count.
    """
    return _remembered(text) if len(text) <= _SHORT else _computed(text[:CUT_BYTES])


def _computed(text: str) -> str:
    if text.isascii():
        normal, masks = text.lower(), _MASKS_OF_ASCII
    else:
        normal, masks = unicodedata.normalize("NFC", well_formed(text)).casefold(), _MASKS_OF_ANY
    for sign, pattern, mask in masks if _DIGIT.search(normal) else masks[:1]:
        if sign in normal:
            normal = pattern.sub(mask, normal)
    return hashlib.sha256(" ".join(normal.split()).encode()).hexdigest()[:16]


_remembered = lru_cache(maxsize=2048)(_computed)
