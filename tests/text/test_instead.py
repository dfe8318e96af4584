"""What is said in place of a name that there is not."""

from __future__ import annotations

import pytest

from conch.text import NAMED, instead


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("rewrad", ["needs", "reward"], "the nearest name is reward"),
        ("zzz", ["b", "a", "b"], "there is a, b"),
        ("zzz", [], "there is none"),
        ("", ["a"], "there is a"),
        ("zzz", [f"n{number:03}" for number in range(NAMED + 1)], f"n{NAMED - 1:03}, …"),
    ],
)
def test_the_nearest_name_or_all_there_are(name: str, known: list[str], said: str) -> None:
    """A name that is not near is no advice."""
    assert instead(name, known).endswith(said)
