"""Tells noise from text by the letter trigrams that the agent has read. Pure but for the set that grows."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from zlib import crc32

SLOTS = 2**18
"""Slots of the set, one bit each (32 KiB an agent). English text fills some 10,000 of them, so that an unknown trigram
is taken for a known one in 4 % of cases."""
SAMPLE = 2_000
"""Most letters of an act that are judged, and that are learnt: 0.2 ms each."""
LETTERS_READ = 4_000
"""Letters from which a script counts as read. Measured on this project's own texts, 200 characters at a time: text that
is new is taken for noise in 15 % of cases after 2,000 letters, in 1 % after 4,000, in none after 8,000."""
SYLLABLES = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "ETHIOPIC", "YI"})
"""Scripts with too many characters for trigrams to come again: their text is never noise."""

_WORD = re.compile(r"[^\W\d_]{3,}")


@lru_cache(maxsize=4096)
def script_of(letter: str) -> str:
    """The script of a letter, as Unicode names it: LATIN, GREEK, CYRILLIC."""
    return "LATIN" if letter.isascii() else unicodedata.name(letter, "NONE").split(" ", 1)[0]


class Trigrams:
    """The letter trigrams that the agent has read, as a set of bits; letters by script."""

    def __init__(self, bits: bytes = b"", letters: Mapping[str, int] | None = None) -> None:
        self._bits = bytearray(bits) if len(bits) == SLOTS // 8 else bytearray(SLOTS // 8)
        self.letters = Counter(letters or {})
        """Letters read, by script."""

    def __bytes__(self) -> bytes:
        return bytes(self._bits)

    def __contains__(self, trigram: str) -> bool:
        slot = crc32(trigram.encode()) % SLOTS
        return bool(self._bits[slot >> 3] & 1 << (slot & 7))

    def learn(self, lines: Iterable[str]) -> bool:
        """Add what was read: its first SAMPLE letters. Whether there was any letter."""
        found, letters = _counted(lines)
        for trigram in found:
            slot = crc32(trigram.encode()) % SLOTS
            self._bits[slot >> 3] |= 1 << (slot & 7)
        self.letters += letters
        return bool(letters)

    def noise(self, lines: Iterable[str], *, least: int, share: float) -> bool:
        """Whether a text of at least `least` letters has less than `share` (0..1) of its trigrams from what was read.

        Each trigram counts as often as it occurs in the first SAMPLE letters. Only scripts of which LETTERS_READ
        letters were read count.
        """
        found, letters = _counted(lines)
        read = {script for script, number in self.letters.items() if number >= LETTERS_READ}
        if sum(number for script, number in letters.items() if script in read) < least:
            return False
        judged = {trigram: number for trigram, number in found.items() if script_of(trigram[0]) in read}
        known = sum(number for trigram, number in judged.items() if trigram in self)
        return known < share * sum(judged.values())


def _counted(lines: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    """(trigrams, letters by script) of words of at least three letters; a word's script is that of its first letter."""
    trigrams: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    left = SAMPLE
    for line in lines:
        for word in _WORD.findall(line.casefold()):
            if (script := script_of(word[0])) in SYLLABLES:
                continue
            part = word[:left]
            letters[script] += len(part)
            trigrams.update([part[at : at + 3] for at in range(len(part) - 2)])
            left -= len(part)
            if left <= 0:
                return trigrams, letters
    return trigrams, letters
