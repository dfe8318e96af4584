"""Removes from texts what must not leave the home: secrets, personal data, lone surrogates.

Three sources say what that is: `conch.config.Masker`, detect-secrets for further keys of known services, datafog for
mail addresses, phone numbers, cards, social security numbers and IP addresses. The two libraries look at a line at a
time, and only at lines that may hold such a text: searches for a few fixed strings say so at a tenth of the price. The
lines of prompts repeat from cycle to cycle, so what was found in a line is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from conch.config import Masker
from conch.errors import UsageError
from conch.secrets import HIDDEN, SecretSigns
from conch.text import well_formed

REDACTOR: Final = 2
"""Version of what is redacted and how: a row whose text another version redacts otherwise is another row."""
PERSONAL: Final = ("EMAIL", "PHONE", "SSN", "CREDIT_CARD", "IP_ADDRESS")
"""Kinds of datafog. Dates and postal codes are left: numbers of tools look like them, and they name no person."""
_PERSONAL_LINE: Final = re.compile(r"@|(?:\d[ ().+:-]{0,2}){7}|\d\.\d+\.\d+\.")
"""A line without a match holds none of PERSONAL: they have an `@`, seven digits, or the dots of an address."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.+/=-]*")
"""What follows a key that was matched in part, as the pattern of JSON web tokens does."""
_LEAST_GROUP: Final = 8
"""Characters of a group that is the secret of a pattern; a shorter one is a prefix, such as `ghp`."""
_LONG_WORD: Final = re.compile(r"[^\s]{16}|://")
"""A line without a match holds no key: the shortest one of a known service has 16 characters."""
_MATCH_NEEDS: Final[dict[str, tuple[tuple[str, ...], int]]] = {
    "ArtifactoryDetector": (("AKC", "AP"), 11),
    "AWSKeyDetector": (("aws", "A3T", "ABIA", "ACCA", "AKIA", "ASIA"), 0),
    "AzureStorageKeyDetector": (("AccountKey=",), 0),
    "BasicAuthDetector": (("//",), 0),
    "CloudantDetector": (("key", "pw", "pass", "token", "cloudant"), 24),
    "DiscordBotTokenDetector": (("",), 24),
    "GitHubTokenDetector": (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), 40),
    "GitLabTokenDetector": (("gl", "GR1348941"), 25),
    "IbmCloudIamDetector": (("key", "pwd", "pass", "token"), 44),
    "IbmCosHmacDetector": (("secret",), 48),
    "JwtTokenDetector": (("eyJ",), 0),
    "MailchimpDetector": (("-us",), 32),
    "NpmDetector": (("//",), 0),
    "OpenAIDetector": (("T3BlbkFJ",), 48),
    "PypiTokenDetector": (("pypi-Ag",), 70),
    "SendGridDetector": (("SG.",), 43),
    "SlackDetector": (("xox", "//"), 0),
    "SoftlayerDetector": (("key", "pwd", "pass", "token", "softlayer"), 64),
    "SquareOAuthDetector": (("sq0csp-",), 43),
    "StripeDetector": (("k_live_",), 24),
    "TelegramBotTokenDetector": ((":",), 35),
    "TwilioKeyDetector": (("AC", "SK"), 34),
}
"""Detector of detect-secrets -> what stands in each ASCII line that one of its patterns matches: one of these strings
(one without capitals in either case), and so many characters of _RUN in a row. The patterns of a detector that is not
named are searched in each line."""
_NOTHING: Final = (("",), 0)
_RUN: Final = bytes(b"w"[0] if chr(code).isalnum() or chr(code) in "_-\\" else b" "[0] for code in range(128)) * 2
"""Letters, digits, `_`, `-` and backslash, as one letter."""
_LEAST_RUN: Final = b"w" * 20
"""The shortest run in _MATCH_NEEDS but that of Artifactory, whose strings `is_plain` looks for."""
_DIGITS: Final = bytes(b"0"[0] if chr(code).isdigit() else code for code in range(128)) * 2
_SEVEN_DIGITS: Final = b"0" * 7
_BETWEEN_DIGITS: Final = b" ().+:-"
_CORE: Final = 2000
_CONTEXT: Final = 500
"""A longer line is looked at in pieces of so many characters, each with so many before and behind it: the patterns of
the libraries take a time that grows with the square of the length. What begins in a piece is found in it, up to the
length of the context at least, and a key is followed to its end."""
_KEPT_LINES: Final = 16_384
_KEPT_LENGTH: Final = 400
"""Lines whose result is kept, and the characters of the longest of them: some 10 MB."""


class Redactor:
    """Redacts texts: secrets become HIDDEN, personal data `[EMAIL]`, `[PHONE]` and so on. Twice gives the same as
    once."""

    def __init__(self, masker: Masker) -> None:
        """Raises UsageError where the extra `data` is not installed."""
        try:
            key_patterns()
            _scan()
        except ImportError as error:
            raise UsageError(
                "secrets and personal data are found by detect-secrets and datafog, which are not installed: "
                "pip install 'conch-agent[data]'"
            ) from error
        self._masker = masker

    def __call__(self, text: str) -> str:
        """The text, redacted."""
        text = self._masker.text(text if text.isascii() else well_formed(text))
        if is_plain(text):
            return text
        return "\n".join(_kept(line) if len(line) <= _KEPT_LENGTH else _redacted(line) for line in text.split("\n"))

    def all(self, texts: Sequence[str]) -> list[str]:
        """Each text as it is redacted alone. What they are searched for is searched in all of them at once, and only a
        sign that is there in each: of texts that are mostly plain it takes a tenth of the time."""
        found = list(texts)
        plain = [place for place, text in enumerate(texts) if text.isascii()]
        whole = "\n".join(map(texts.__getitem__, plain))
        signs = [sign for sign in _SIGNS if sign(whole)]
        signs += [SecretSigns(whole).in_text, *([self._masker.knows] if self._masker.knows(whole) else [])]
        suspects = set(range(len(texts))).difference(plain)
        for sign in signs:
            suspects.update(place for place in plain if sign(texts[place]))
        for place in suspects:
            found[place] = self(texts[place])
        return found


def redactor(masker: Masker) -> Redactor:
    """What redacts a text without the secrets of the masker. Raises UsageError where the extra `data` is not
    installed."""
    return Redactor(masker)


@lru_cache(_KEPT_LINES)
def _kept(line: str) -> str:
    return _redacted(line)


class KeyPattern(NamedTuple):
    """A pattern of detect-secrets, and what it needs to match, as in _MATCH_NEEDS."""

    pattern: re.Pattern[str]
    needles: tuple[str, ...]
    run: int

    def may_match(self, line: str, lower: str, runs: bytes) -> bool:
        """Whether what it needs is there. `lower`: the line in small letters. `runs`: it, translated by _RUN."""
        return b"w" * self.run in runs and any(needle in line or needle in lower for needle in self.needles)


def keys_in(line: str) -> list[re.Pattern[str]]:
    """The patterns of keys that may match in a line: all that do, and few others."""
    if not line.isascii():
        return [one.pattern for one in key_patterns()]
    lower, runs = line.lower(), line.encode().translate(_RUN)
    return [one.pattern for one in key_patterns() if one.may_match(line, lower, runs)]


def is_plain(text: str) -> bool:
    """Whether no line of the text holds a key of a service or personal data: false for each that does, and for few
    others."""
    return (
        text.isascii()
        and not any(sign(text) for sign in _KEY_SIGNS)
        and not (_may_hold_people(text) and _PERSONAL_LINE.search(text))
    )


def _may_hold_key(text: str) -> bool:
    # A single letter is found ten times as fast as two or three.
    return (
        "//" in text
        or ("J" in text and "eyJ" in text)
        or ("A" in text and ("AP" in text or "AKC" in text or "AccountKey=" in text))
    )


def _may_hold_key_in_either_case(text: str) -> bool:
    lower = text.lower()
    return "aws" in lower or ("x" in lower and "xox" in lower)


def _holds_long_run(text: str) -> bool:
    return _LEAST_RUN in text.encode().translate(_RUN)


def _may_hold_people(text: str) -> bool:
    raw = text.encode()
    rest = raw.translate(None, b"0123456789")
    return (
        b"@" in raw
        or (len(raw) > len(rest) and b"..." in rest)
        or (len(raw) - len(rest) >= 7 and _SEVEN_DIGITS in raw.translate(_DIGITS, _BETWEEN_DIGITS))
    )


def _is_unknown_there(_: str) -> bool:
    """Whether there is a pattern that needs nothing: of a detector that this module does not know."""
    return _any_unknown()


_KEY_SIGNS: Final[tuple[Callable[[str], bool], ...]] = (
    _holds_long_run,
    _may_hold_key,
    _may_hold_key_in_either_case,
    _is_unknown_there,
)
_SIGNS: Final = (*_KEY_SIGNS, _may_hold_people)
"""What an ASCII text has one of that is not plain. Each is true of texts that are joined by line ends exactly where it
is true of one of them: what it looks for has no line end within."""


def _pieces(line: str) -> Iterator[tuple[str, int, int, int]]:
    """(a piece of the line with its context, its place in the line, from where to where in it a find counts)."""
    for at in range(0, max(1, len(line)), _CORE):
        first = max(0, at - _CONTEXT)
        yield line[first : at + _CORE + _CONTEXT], first, at - first, at - first + _CORE


def _redacted(line: str) -> str:
    if _LONG_WORD.search(line):
        line = _without_keys(line)
    return _without_people(line) if _PERSONAL_LINE.search(line) else line


def _without_keys(line: str) -> str:
    spans = sorted(
        (place + start, place + end)
        for piece, place, least, most in _pieces(line)
        for pattern in keys_in(piece)
        for match in pattern.finditer(piece)
        if least <= match.start() < most
        for start, end in [_secret(match)]
    )
    return _replaced(line, ((start, _TOKEN.match(line, end).end(), HIDDEN) for start, end in spans))  # type: ignore[union-attr] # it matches everywhere


def _secret(match: re.Match[str]) -> tuple[int, int]:
    """Where the secret of a match stands: its group where that is long enough, else the whole."""
    groups = [number for number, text in enumerate(match.groups(), 1) if text and len(text) >= _LEAST_GROUP]
    return match.span(groups[0] if len(groups) == 1 else 0)


def _replaced(line: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """The line with what stands in each span (start, end, instead) replaced; a span within the one before is passed."""
    pieces, at = [], 0
    for start, end, instead in spans:
        if start >= at:
            pieces += [line[at:start], instead]
            at = end
    return "".join((*pieces, line[at:]))


def _without_people(line: str) -> str:
    spans = sorted(
        (place + start, place + end, f"[{kind}]")
        for piece, place, least, most in _pieces(line)
        if _PERSONAL_LINE.search(piece)
        for start, end, kind in _scan()(piece)
        if least <= start < most
    )
    return _replaced(line, spans)


@cache
def key_patterns() -> tuple[KeyPattern, ...]:
    """Those of known services, which go by a form of their own. Entropy and key words find hashes and code instead."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector

    left = {"Public IP (ipv4)", "Private Key"}  # datafog finds the addresses, and a key is more than its first line
    found: Iterable[type] = get_mapping_from_secret_type_to_class().values()
    kinds = sorted((kind for kind in found if issubclass(kind, RegexBasedDetector)), key=lambda kind: kind.__name__)
    return tuple(
        _key_pattern(kind.__name__, pattern)
        for kind in kinds
        if str(kind.secret_type) not in left
        for pattern in kind().denylist
    )


def _key_pattern(detector: str, pattern: re.Pattern[str]) -> KeyPattern:
    needles, run = _MATCH_NEEDS.get(detector, _NOTHING)
    return KeyPattern(pattern, needles, run)


@cache
def _any_unknown() -> bool:
    return any((one.needles, one.run) == _NOTHING for one in key_patterns())


@cache
def _scan() -> Callable[[str], list[tuple[int, int, str]]]:
    """(start, end, kind) of the personal data in a line. A number of digits alone is no phone number: it is a time in
    seconds, a size or a position far more often."""
    from datafog.engine import scan

    kinds = list(PERSONAL)

    def found(line: str) -> list[tuple[int, int, str]]:
        entities = scan(line, "regex", kinds).entities
        return [(one.start, one.end, one.type) for one in entities if one.type != "PHONE" or not one.text.isdigit()]

    return found
