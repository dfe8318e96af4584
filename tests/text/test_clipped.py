"""A long text in a row: its head, which says that there is more."""

from __future__ import annotations

import pytest

from conch.text import clipped


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("one two", "one two"),
        ("one two, three", "one two…"),
        ("one two three", "one two…"),
        ("one twothr ee", "one twoth…"),
        ("onetwothreefour", "onetwothr…"),
        ("one two 34;5 six", "one two…"),
        ("one\ntwothree four", "one\ntwoth…"),
    ],
)
def test_it_ends_behind_a_word_and_no_comma(text: str, head: str) -> None:
    """A text of at most ten characters stays; a word that is long is cut."""
    assert clipped(text, 10) == head
    assert len(head) <= 10
