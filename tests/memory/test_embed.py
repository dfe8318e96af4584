"""Recall by sense: a memory in other words is found; without an embedder words alone decide, and that is said once."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray
from structlog.testing import capture_logs

from conch.memory import Embedder, LongTermMemory, default_embedder
from conch.memory.embed import DIMENSIONS, EMBEDDED_AT_ONCE

if TYPE_CHECKING:
    from tests.memories import MakeMemory

SENSES = {"doctor": 0, "physician": 0, "car": 1, "automobile": 1, "kelp": 2, "seaweed": 2}


class Table:
    """An embedder of a few words: each sense has a direction of its own; other words have none."""

    def __init__(self) -> None:
        self.embedded = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.embedded += len(texts)
        found = np.full((len(texts), DIMENSIONS), -1e-4, dtype=np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in text.split():
                if (sense := SENSES.get(word)) is not None:
                    row[80 * sense : 80 * sense + 80] += 1.0
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_a_memory_in_other_words_is_recalled_by_its_sense(file: Path, memory: MakeMemory) -> None:
    """And one of another sense is not; without the embedder neither is."""
    store = LongTermMemory(file, embedder=Table())
    store.add([memory("The doctor has a car", number=1), memory("Kelp grows", number=2)])

    assert [one.memory.sources[0].cycle for one in store.recall("physician automobile", 5, now=0)] == [1]
    assert LongTermMemory(file).recall("physician automobile", 5, now=0) == ()


def test_memories_of_before_the_embedder_get_their_embedding_some_at_a_time(file: Path, memory: MakeMemory) -> None:
    """With each write, so many at most: no write takes for ever."""
    LongTermMemory(file).add([memory(f"number {number} of kelp", number=number) for number in range(700)])
    embedder = Table()
    store = LongTermMemory(file, embedder=embedder)

    for number in range(3):
        before = embedder.embedded
        store.add([memory(f"later {number}", number=1000 + number)])
        assert embedder.embedded - before <= EMBEDDED_AT_ONCE
    assert store.recall("seaweed", 3, now=0)


def test_a_forgotten_and_a_revised_memory_are_not_found_by_what_they_said(file: Path, memory: MakeMemory) -> None:
    """Although their embeddings were read before."""
    store = LongTermMemory(file, embedder=Table())
    store.add([memory("The doctor", "episode", 1), memory("A car", number=2)])
    assert store.recall("physician", 1, now=0)
    (gone,) = store.recall("automobile", 1, now=0)

    store.add([memory("Kelp", "episode", 1, revision=2)])
    store.forget([gone.memory.id])

    assert store.recall("physician", 5, now=0) == ()
    assert store.recall("automobile", 5, now=0) == ()


def test_without_the_extra_there_is_no_embedder_and_that_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it; the words remain."""
    monkeypatch.setattr("conch.memory.default.is_installed", lambda _: False)
    default_embedder.cache_clear()

    with capture_logs() as logs:
        assert [default_embedder(), default_embedder()] == [None, None]

    default_embedder.cache_clear()
    (line,) = logs
    assert line["event"] == "memory.words_alone"
    assert "[memory]" in line["install"]


@pytest.fixture
def wordllama(lacking: Callable[[str], NoReturn]) -> Embedder:
    """The embedder that the extra brings."""
    if importlib.util.find_spec("wordllama") is None:
        lacking("there is no embedder: pip install 'conch-agent[memory]'")
    found = default_embedder()
    assert found is not None
    return found


def test_the_embedder_of_the_extra_knows_synonyms_without_a_network(wordllama: Embedder) -> None:
    """Rows of length 1; an empty text has none."""
    texts = ["doctor bought car", "physician purchased automobile", "kelp grows fast", ""]
    rows = wordllama.embed(texts)

    assert rows.shape == (4, DIMENSIONS)
    assert np.linalg.norm(rows[:3], axis=1) == pytest.approx([1, 1, 1], abs=1e-3)
    assert rows[0] @ rows[1] > 0.5 > 0.3 > rows[0] @ rows[2]
    assert (rows == wordllama.embed(texts)).all()
