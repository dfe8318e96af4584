"""How surprising a text is: what tells a random value from a word, an identifier or a number."""

from __future__ import annotations

from functools import lru_cache
from string import ascii_lowercase
from typing import Final

MOST: Final = 256
"""Characters of a text that are looked at."""
START, CASE, TURN, DIGIT, SIGN, OTHER = 3.5, 4.5, 5.0, 3.3, 2.0, 5.0
"""Bits of a word's first letter, of a change of case within a word, of a change between letter and digit, of a digit
after a digit, of a sign that joins words, of any other character."""
JOINS: Final = frozenset(" _-./:,@")
_PAIRS: Final = """
74448758596344959343667669
35464788458366459446487859
37663783594467279563579979
36652678288576469545578879
47435568798453757334866479
47654368299476369455498969
47662754499464569346578987
27662797397666379564588969
56455559998442459543959795
37662796494697359656296976
46652655378475668635685969
38652788398377369755579949
25762799497657339846599969
47433538496676469843568979
65447658696442549344465799
38663786498387349354597959
66776766689686776557166899
37552659397656369544677969
57473774396667548742487969
37562694399567469345587858
54554569599442649343899899
26681778389768578666887888
37653674298674469445877699
56453475488558539652777558
55454577598444529533765676
47761686398777478766897665
"""
"""Bits of a letter after a letter, at most 9: a row for each first letter. Counted over the words of the sources and
the documentation of Python 3.11 and Conch, each word once."""
_BITS: Final = {
    first + second: float(bits)
    for first, row in zip(ascii_lowercase, _PAIRS.split(), strict=True)
    for second, bits in zip(ascii_lowercase, row, strict=True)
}


@lru_cache(8192)
def surprise(text: str) -> float:
    """Mean bits of a character: about 3.5 of words, names and numbers, 4.5 to 6 of random letters and digits."""
    bits, before, kind_before = 0.0, "", "sign"
    for character in text[:MOST]:
        kind = _kind(character)
        bits += _cost(before, kind_before, character, kind)
        before, kind_before = character, kind
    return bits / min(len(text), MOST) if text else 0.0


def _kind(character: str) -> str:
    if character.isdigit():
        return "digit"
    if character.islower():
        return "lower"
    return "upper" if character.isalpha() else "sign"


def _cost(before: str, kind_before: str, character: str, kind: str) -> float:
    if kind == "sign":
        return SIGN if character in JOINS else OTHER
    if kind == "digit":
        return DIGIT if kind_before in {"digit", "sign"} else TURN
    if kind_before == "digit":
        return TURN
    if kind_before == "sign":
        return START
    if kind == "upper" and kind_before == "lower":
        return CASE
    return _BITS.get((before + character).lower(), OTHER)
