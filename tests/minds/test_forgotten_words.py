"""The embedded mind without the words of a text."""

from __future__ import annotations

from pathlib import Path

from conch.minds import forget_words
from conch.minds.memory import BanditMemory, load, save


def test_the_stored_mind_loses_the_words_of_a_text(tmp_path: Path) -> None:
    """In any case; other words stay, a second time changes nothing, and a mind without a file has none."""
    file = tmp_path / "reflex.npz"
    save(BanditMemory(words=dict.fromkeys(["tide", "Roswitha", "roswitha", "Tides"])), file)

    assert forget_words(file, ["roswitha lives here"]) == 2
    assert list(load(file).words) == ["tide", "Tides"]
    assert forget_words(file, ["roswitha lives here"]) == 0
    assert forget_words(tmp_path / "none.npz", ["roswitha"]) == 0
