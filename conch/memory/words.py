"""The words of a memory and of a cue, as they are compared and looked up. Pure."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

MOST_CUE_WORDS: Final = 32
"""Most words of a cue that are looked up, the first ones."""

_WORD = re.compile(r"\w+")
NEGATIONS: Final = frozenset({"no", "not", "never", "none", "nothing", "without", "cannot", "nor", "n't"})
STOPWORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be been but by can could did do does for from had has have he her his i if in into is it "
        "its me my of on or our she should so than that the their them then there these they this to up us was we were "
        "what when where which while who will with would you your",
    )
)
"""Words that say nothing of a text's matter: the most frequent ones of English."""
_SHORT_NOT = re.compile(r"n['’]t\b")


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text in their order, in small letters; `isn't` is `is` and `not`."""
    return tuple(_WORD.findall(_SHORT_NOT.sub(" not", unicodedata.normalize("NFKC", text).casefold())))


def key_of(text: str) -> int:
    """63 bits that two texts share when they have the same words in the same order."""
    return (
        int.from_bytes(hashlib.blake2b(" ".join(words_of(text)).encode("utf-8", "replace"), digest_size=8).digest())
        >> 1
    )


def cue_words(cue: str) -> tuple[str, ...]:
    """The words to look up: the telling ones, each once, MOST_CUE_WORDS at most."""
    return tuple(dict.fromkeys(telling_words(cue)))[:MOST_CUE_WORDS]


def telling_words(text: str) -> tuple[str, ...]:
    """The words of a text in their order, without STOPWORDS and NEGATIONS."""
    return tuple(word for word in words_of(text) if word not in STOPWORDS and word not in NEGATIONS)
