"""Checks of what a thought asserts about a sensor, against the sensor's last reading.

A number holds within half a unit of its own last digit or 1 % of the measured value, the larger of the two (10 % after
*about*); *above*, *below*, *at least*, *at most* and *between* are taken literally. A word holds when it is the
reading, or means the same (*on* for `true`), and is refuted when it excludes it (*closed* for `open`). Wishes,
questions and statements about the past get the verdict unknown, and so do all claims about a stale reading. Where it is
not plain that the sentence is about the sensor, there is no claim: a wrong verdict is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from conch.cycle.grounding.claims import claim, sentence
from conch.cycle.grounding.sensors import in_words
from conch.minds import SensorValue
from conch_schemas import Claim

Verdict = Literal["verified", "refuted", "unknown"]

TOLERANCE, ABOUT = 0.01, 0.10
"""Relative tolerance of a number, and of one after *about*."""
_MOST_MENTIONS = 100
_LINK = 80
"""Most characters between a sensor's name and the assertion."""

_NUMBER = re.compile(r"(?<![\w.,:/])[-+−]?\d{1,15}(?:,\d{3})*(?:[.,]\d{1,9})?(?![\d:/]|[.,]\d)")
_DEGREES = re.compile(r"\s?(?:°|degrees?)\s?([CFK])", re.I)
_NO_READING = re.compile(
    r"\s?(?:\S{0,8}\s)?(?:higher|lower|more|less|above|below|over|under|warmer|colder|cooler|too|to|from|times|readings?)"
    r"\b|\s?(?:s|sec|seconds?|min|minutes?|h|hours?|days?)\s+(?:old|ago|later)\b",
    re.I,
)
"""Words after a number that make it a difference or an age."""
_OPEN = re.compile(
    r"\b(?:if|when|once|until|unless|whether|should|shall|wants?|wish|would|could|might|may|needs?|must|will|going to|"
    r"to (?:be|reach|get|become|stay)|set|turn|switch|raise|lower|bring|keep|make|let|target|aim|expect|hope|guess|"
    r"maybe|perhaps|probably|was|were|had|been|yesterday|earlier|ago|before|previously)\b|\?",
    re.I,
)
_LINKS = re.compile(
    r"s|is|isn|are|aren|be|been|does|doesn|t|has|reads?|says|shows|reports|stands|reached|risen|fallen|at|of|as|and|the|a|its|"
    r"value|reading|level|state|sensor|sense|now|just|still|currently|already|only|not|never|no|longer|than|least|most|"
    r"more|less|higher|lower|greater|warmer|hotter|colder|cooler|above|over|below|under|beyond|exceeds?|exceeding|"
    r"between|about|around|roughly|approximately|nearly|almost|some",
    re.I,
)
"""Words that may stand between a sensor and its number."""
_NOT = re.compile(r"\b(?:not|never|no longer)\b|n[’']t\b", re.I)
_ABOUT = re.compile(r"\b(?:about|around|roughly|approximately|nearly|almost|some)\b|[~≈]", re.I)
_AT_LEAST = re.compile(r"\b(?:at least|not? (?:less|lower) than)\b|>=|≥", re.I)
_AT_MOST = re.compile(r"\b(?:at most|not? (?:more|higher) than)\b|<=|≤", re.I)
_ABOVE = re.compile(r"\b(?:above|over|beyond|exceed(?:s|ing)?|(?:more|higher|greater|warmer|hotter) than)\b|>", re.I)
_BELOW = re.compile(r"\b(?:below|under|(?:less|lower|colder|cooler) than)\b|<", re.I)
_RANGE = re.compile(r"\bbetween\s*$", re.I)
_IS = re.compile(
    r"^[\s`'\"”]*(?:(?:sensor|sense|value|state)\s+)?(?:is|are|reads?|says?|shows?|reports?|=|:)(?P<not>n[’']t)?\s*"
    r"(?P<adverbs>(?:(?:not|no longer|now|still|currently|already)\s+)*)"
    r"(?P<quote>[`'\"“]?)(?P<word>[^\s`'\"”.,;!?]+)",
    re.I,
)
_STATES = tuple(
    (frozenset(one.split()), frozenset(other.split()))
    for one, other in (
        ("on true yes active enabled", "off false no inactive disabled"),
        ("open opened", "closed shut"),
        ("locked", "unlocked"),
        ("home", "away not_home"),
        ("occupied", "empty vacant unoccupied"),
        ("detected triggered", "clear"),
        ("wet", "dry"),
        ("online available", "offline unavailable"),
    )
)
"""Pairs of word groups that exclude each other; the words of one group mean the same."""


def readings(text: str, senses: Sequence[SensorValue]) -> Iterator[Claim]:
    """The claims of `text` that name one of `senses`, checked. Linear in its length."""
    if not senses:
        return
    known = {sense.name: sense for sense in senses}
    named = re.compile(rf"\b(?:{'|'.join(_words(name) for name in sorted(known, key=len, reverse=True))})\b", re.I)
    for match in islice(named.finditer(text), _MOST_MENTIONS):
        before, after = sentence(text, match)
        asks = text.startswith("?", match.end() + len(after))
        upto = named.search(after)
        said = after[: upto.start()] if upto else after
        sense = known[re.sub(r"[\s-]", "_", match.group()).lower()]
        verdict = _number_held(sense, said) if isinstance(sense.value, float) else _word_held(str(sense.value), said)
        if verdict is not None:
            open_ = asks or sense.stale or _OPEN.search(before) or _OPEN.search(said)
            words = f"{before}{match.group()}{said}".strip()
            yield claim(words, "sense", "unknown" if open_ else verdict, f"sense {in_words(sense)}")


def _words(name: str) -> str:
    """A sensor's name as people write it: `kitchen_temperature`, `Kitchen temperature`."""
    return re.escape(name).replace("_", r"[\s_-]")


def _number_held(sense: SensorValue, said: str) -> Verdict | None:
    """The verdict on the first number after a sensor's name; None where there is none, or it is no reading."""
    match, value = _NUMBER.search(said), float(sense.value)
    if match is None or match.start() > _LINK:
        return None
    words, rest = said[: match.start()], said[match.end() :]
    linked = all(_LINKS.fullmatch(word) or _OPEN.fullmatch(word) for word in re.findall(r"[^\W\d_]+", words))
    if not linked or _NO_READING.match(rest):
        return None
    degrees = _DEGREES.match(rest)
    if degrees is not None and "°" in sense.unit and degrees[1].upper() not in sense.unit.upper():
        return "unknown"
    return _compared(value, match.group(), words, rest)


def _compared(value: float, stated: str, words: str, rest: str) -> Verdict:
    number, half_a_digit = _number(stated)
    if _RANGE.search(words) and (second := _NUMBER.search(rest)) is not None:
        return _verdict(number <= value <= _number(second.group())[0], words)
    for pattern, holds in (
        (_AT_LEAST, value >= number),
        (_AT_MOST, value <= number),
        (_ABOVE, value > number),
        (_BELOW, value < number),
    ):
        if (found := pattern.search(words)) is not None:
            return _verdict(holds, words[: found.start()])
    slack = abs(value) * (ABOUT if _ABOUT.search(words) else TOLERANCE)
    return _verdict(abs(number - value) <= max(half_a_digit, slack), words)


def _number(text: str) -> tuple[float, float]:
    """A number as a thought writes it (21.5, 21,5, 1,013), and half a unit of its last digit."""
    plain = re.sub(r",(?=\d{3}(?:\D|$))", "", text.replace("−", "-")).replace(",", ".")
    return float(plain), 0.5 * 10.0 ** -len(plain.partition(".")[2])


def _word_held(value: str, said: str) -> Verdict | None:
    """The verdict on the word after *is*; None where there is none."""
    match = _IS.match(said)
    if match is None:
        return None
    same = _same(value.strip().casefold(), match["word"].casefold(), said[match.start("word") :].casefold())
    if same is None and not match["quote"]:
        return "unknown"
    return _verdict(bool(same), (match["not"] or "") + match["adverbs"])


def _same(measured: str, word: str, rest: str) -> bool | None:
    """Whether a word means the measured value; None where that is not certain."""
    if rest.startswith(measured) and not rest[len(measured) : len(measured) + 1].isalnum():
        return True
    for pair in _STATES:
        for one, other in (pair, pair[::-1]):
            if measured in one and word in one | other:
                return word in one
    return None


def _verdict(holds: bool, words: str) -> Verdict:
    """The verdict; a *not* in `words`, those before the assertion, inverts it."""
    return "verified" if holds != bool(_NOT.search(words)) else "refuted"
