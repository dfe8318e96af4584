"""Whether what stands behind a name is a secret, or a word, a placeholder, an expression, an id."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from conch.secrets.names import Grade, grade_of, words_of
from conch.secrets.surprise import MOST, surprise

_PLACEHOLDER: Final = re.compile(
    r"""(?ix) [$%@]?[{<(\[].*[})>\]]  |  \$(?:env:)?\w+  |  %\(?\w+\)?s?%?  |  [*x.•_\-#]+  |  .*\.\.\.  |  .*…
    | none | null | nil | true | false | undefined | void | default | unset | empty | string | redacted | hidden
    | masked | removed | secret | todo
    | (?:your|my|the|an?|some|insert|enter|put|change|replace|new|old|test|foo|bar)[-_ ][a-z_ -]*
    | (?:example|changeme|dummy|fake|sample|placeholder|insert|your)[a-z_ -]{0,40}\d{0,3}
    | [*`_'"]{0,2}\*[a-z_-]+\d{0,2}\*?  |  \{\w+[.\[}:!(].*  |  \$\w+=.*  |  !\w+  |  (?:\{\{|\$[{(\[]).*
    | secrets?\.\S+  |  0x[0-9a-f]{1,16}  |  (?:[\w.-]{1,40}:)?[x*!]{1,2}:\d{1,10}:.*
    | (?:data|vault|ssm|env|file|op|arn):\S*
    """
)
_CALL: Final = re.compile(r"(?:new |await |async |not |lambda\b)?[A-Za-z_$][\w.$:>-]*(?:\(|\[|\{|<\w+>\()")
_VERSION: Final = re.compile(r"(?<=[a-z])\d(?=[A-Z])")
"""A digit between two words of a name, such as that in `OAuth2Bearer`."""
_NAMES: Final = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)*;?")
_PATH: Final = re.compile(
    r"(?:~?/|\.{1,2}/|[A-Za-z]:[\\/]|file:|https?://)\S*|[\w.-]+(?:/[\w.-]+)+/?(?:::\S*)?|[\w-]+\.(?:py|js|ts|go|rs|c|h|md|txt|json|ya?ml"
    r"|toml|pem|key|crt|cfg|ini|sh|html?|xml|csv|log|env|com|org|net|io)"
)
_DIGEST: Final = re.compile(r"(?:sha\d{1,3}[:-])?[0-9a-fA-F]{7,128}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATE: Final = re.compile(r"[\d.,:/+_\sTZeE-]+(?:[a-zA-Z%]{1,3})?|\d[\d_.]*[a-zA-Z]{1,2}")
_NUMBERED: Final = re.compile(r"([A-Za-z_]*[A-Za-z])[_-]?\d{1,2}")
_COMMON: Final = words_of(
    "arg args data hash md sha str utf ascii text line val var item node field user param base bytes blob int uint "
    "float vec level version step page tmp temp result ret out input"
)
_LETTERS_AND_SIGNS: Final = re.compile(r"\W{0,2}[A-Za-z_][A-Za-z_.-]*\W{0,2}")
_HAS_DIGIT, _HAS_LETTER = re.compile(r"\d"), re.compile(r"[A-Za-z]")

RANDOM: Final = 4.0
"""Mean bits of a character from which a value is random: see `surprise`."""
WORDY: Final = 5.0
"""The same of a value of letters alone, from which it is no word and no name."""
MIXED_CASE: Final = 4.6
"""The same of a long value of letters of both cases."""
MIXED: Final = 3.6
"""The same of a value that has letters and digits or signs."""


def is_placeholder(value: str) -> bool:
    """Whether the value stands for a secret, and is none."""
    return _PLACEHOLDER.fullmatch(value[:MOST]) is not None or len(set(value)) <= 2


def is_expression(value: str) -> bool:
    """Whether an unquoted value is code that has a value: a call, an item, a name, names joined by dots."""
    value = value[:MOST]
    if match := _CALL.match(value):
        name = _VERSION.sub("", match[0][:-1])
        return not _is_mixed(name) and surprise(name) < WORDY
    if not _NAMES.fullmatch(value):
        return False
    if value.startswith(("self.", "this.", "cls.", "self->", "this->")):
        return True
    return not _is_mixed(value) and surprise(value) < (
        WORDY if _is_of_letters(value) or len(value) < 12 else MIXED_CASE
    )


def is_secret(value: str, grade: Grade, *, is_literal: bool) -> bool:
    """Whether a value behind a name of this grade is a secret. `is_literal`: it is quoted, or stands where no code can
    stand; else a word, a name or a call is none."""
    return grade is not Grade.NONE and _is_secret(value.strip()[:MOST], grade, is_literal=is_literal)


@lru_cache(8192)
def _is_secret(value: str, grade: Grade, *, is_literal: bool) -> bool:
    if not value or is_placeholder(value) or (not is_literal and is_expression(value)) or _is_name_of_secret(value):
        return False
    if grade is Grade.PASSWORD:
        return _is_password(value, is_literal=is_literal)
    if grade is Grade.STRONG:
        return _is_key(value)
    return grade is Grade.WEAK and _is_surely_random(value)


def _is_name_of_secret(value: str) -> bool:
    """Whether it is itself the name of a secret, such as `db_password` or `API-KEY`."""
    return (
        _LETTERS_AND_SIGNS.fullmatch(value) is not None
        and surprise(value) < WORDY
        and grade_of(value) is not Grade.NONE
    )


def _is_password(value: str, *, is_literal: bool) -> bool:
    if len(value) < 6 or _is_prose(value) or (_PATH.fullmatch(value) and not _is_surely_random(value)):
        return False
    if value.isdigit():
        return is_literal
    if match := _NUMBERED.fullmatch(value):
        stem = match[1].lower().strip("_")
        return (
            len(value) >= 7 and stem not in _COMMON and grade_of(stem) is Grade.NONE and (is_literal or len(value) > 8)
        )
    if _DATE.fullmatch(value):
        return False
    return (
        _is_mixed(value)
        or surprise(value) >= (WORDY if _is_of_letters(value) else RANDOM)
        or (is_literal and _has_words(value))
    )


def _is_mixed(value: str) -> bool:
    """Whether letters stand beside digits, other than a number at the end."""
    has_both = _HAS_DIGIT.search(value) is not None and _HAS_LETTER.search(value) is not None
    return has_both and surprise(value) >= 3.0 and not _NUMBERED.fullmatch(value)


def _is_of_letters(value: str) -> bool:
    """Whether it has letters of one case alone, but for a capital in front and signs that join words."""
    return re.fullmatch(r"[A-Z]?[a-z]*(?:[-_. ][A-Z]?[a-z]*)*|[A-Z_. -]*", value) is not None


def _has_words(value: str) -> bool:
    """Whether it is made of so many words that nobody guesses it."""
    return (
        len(re.findall(r"[A-Za-z]{3,}", value)) >= 4
        and re.fullmatch(r"[A-Za-z]+(?:[-_.][A-Za-z]+)+", value) is not None
    )


def _is_prose(value: str) -> bool:
    return value.count(" ") >= 1 and surprise(value) < RANDOM + 0.4


def _is_key(value: str) -> bool:
    if len(value) < 8 or _is_prose(value) or _DATE.fullmatch(value):
        return False
    if _PATH.fullmatch(value):
        return _is_surely_random(value)
    if _DIGEST.fullmatch(value):
        return len(value) >= 16 and not value.isdigit()
    if _UUID.fullmatch(value):
        return True
    if match := _NUMBERED.fullmatch(value):
        return surprise(match[1]) >= RANDOM + 0.3 and len(value) >= 12
    if _is_made_by_a_person(value):
        return True
    mixed = _HAS_DIGIT.search(value) is not None and _HAS_LETTER.search(value) is not None
    if _is_of_letters(value):
        return len(value) >= 12 and surprise(value) >= WORDY
    return surprise(value) >= (MIXED if mixed and len(value) >= 12 else RANDOM + (0.3 if not mixed else 0.0))


def _is_made_by_a_person(value: str) -> bool:
    """Whether it has what rules for passwords ask for: capitals, small letters, two digits, a sign that joins no
    words."""
    return len(value) >= 10 and all(
        re.search(kind, value) for kind in (r"[a-z]", r"[A-Z]", r"\d\d", r"[^\w\s.,:/=()-]")
    )


def _is_surely_random(value: str) -> bool:
    """Whether a value is long and random, and no digest or id."""
    if len(value) < 16 or " " in value or _DIGEST.fullmatch(value) or _UUID.fullmatch(value) or _DATE.fullmatch(value):
        return False
    kinds = sum(re.search(kind, value) is not None for kind in (r"[a-z]", r"[A-Z]", r"\d"))
    return kinds >= 2 and surprise(value) >= RANDOM + 0.2
