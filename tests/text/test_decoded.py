"""Text from outside: its byte order mark is no part of it."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.text import decoded, text_decoder

WORDS = "é — 漢字 🐚"


@pytest.mark.parametrize(
    "data",
    [
        WORDS.encode(),
        codecs.BOM_UTF8 + WORDS.encode(),
        WORDS.encode("utf-16"),
        codecs.BOM_UTF16_BE + WORDS.encode("utf-16-be"),
        codecs.BOM_UTF16_LE + WORDS.encode("utf-16-le"),
    ],
)
def test_a_mark_says_how_a_text_is_encoded_and_is_dropped(data: bytes) -> None:
    """UTF-8 where there is none; in one piece or byte by byte."""
    assert decoded(data) == WORDS
    decoder = text_decoder(data[:2])
    parts = [decoder.decode(data[at : at + 1]) for at in range(len(data))]
    assert "".join(parts) + decoder.decode(b"", final=True) == WORDS


@given(st.binary(max_size=50))
def test_any_bytes_are_some_text(data: bytes) -> None:
    """What is no text of the encoding is replaced; one mark is dropped, and no more."""
    assert isinstance(decoded(data), str)
    assert decoded(codecs.BOM_UTF8 * 2 + b"a") == "\ufeffa"
