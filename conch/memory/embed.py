"""Embeddings: a memory is found by its sense too, where an embedder is installed. Without one, by its words alone.

Each memory has the signs of its embedding's dimensions, 32 bytes; the nearest by those are compared by the cosine of
their embeddings, which are made anew from their texts: 12 µs each.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from conch.memory.rows import figure
from conch.memory.words import telling_words

DIMENSIONS: Final = 256
"""Of an embedding: those of the weights that WordLlama brings."""
EMBEDDED_AT_ONCE: Final = 256
"""Memories without an embedding that one write embeds at most, such as those of before the extra was installed."""
WORDS_SHARE: Final = 0.3
"""Share of the fit by words where there are embeddings. Measured on the questions of `ops/bench memory` with a synonym:
0.3 and less recall 89 of 100 answers, 0.5 recalls 83."""
LEAST_COSINE: Final = 0.25
"""Cosine of a memory that shares no word with the cue, from which it may fit: unrelated sentences come to 0.1. Set."""
STALE: Final = 1.2
"""Embeddings in memory, relative to the stored ones, from which they are read anew: the rest was dropped."""


class Embedder(Protocol):
    """Turns texts into vectors whose cosine says how near they are in sense. Deterministic; no network."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row of DIMENSIONS for each text, of length 1, or 0 for a text without a known token."""
        ...


class WordLlamaEmbedder:
    """WordLlama's token embeddings, averaged: 16 MB of weights inside its wheel, no model is run."""

    def __init__(self) -> None:
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level
        import wordllama  # it configures the root logger as it is imported

        root.handlers[:], root.level = handlers, level
        logging.getLogger("wordllama").setLevel(logging.WARNING)
        # Its own look-up misses the tokenizer that its wheel brings: it looks in a folder of another name.
        folder = Path(wordllama.__file__).parent
        self._model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row for each text."""
        found = np.asarray(self._model.embed(list(texts)), dtype=np.float32)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return np.asarray(np.divide(found, lengths, out=np.zeros_like(found), where=lengths > 0), dtype=np.float32)


class SenseIndex:
    """Finds the memories of an open file that are near a cue in sense."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._places = np.zeros(0, dtype=np.int64)
        self._codes = np.zeros((0, DIMENSIONS // 64), dtype=np.uint64)

    def embed_missing(self, database: sqlite3.Connection) -> None:
        """Store the signs of memories that have none, EMBEDDED_AT_ONCE at most."""
        sql = "SELECT place, text FROM memories WHERE bits IS NULL ORDER BY place DESC LIMIT ?"
        rows = database.execute(sql, (EMBEDDED_AT_ONCE,)).fetchall()
        if rows:
            codes = _signs(self._embed([text for _, text in rows]))
            values = [(code.tobytes(), place) for code, (place, _) in zip(codes, rows, strict=True)]
            database.executemany("UPDATE memories SET bits = ? WHERE place = ?", values)

    def fused(
        self, database: sqlite3.Connection, words: Sequence[str], by_words: dict[int, float], most: int
    ) -> dict[int, float]:
        """How well memories fit a cue of these words, by place, 0 to 1 relative to the best one.

        Those that fit by words, and those of the `most` nearest whose cosine is LEAST_COSINE or more, by WORDS_SHARE of
        the fit by words and the rest of the cosine, scaled from the smallest to the largest one.
        """
        self._read(database)
        (sense,) = self._embedder.embed([" ".join(words)])
        found = {place: _text(database, place) for place in (*by_words, *self._nearest(sense, most))}
        texts = {place: text for place, text in found.items() if text is not None}
        if not texts:
            return {}
        cosines = dict(zip(texts, (self._embed(list(texts.values())) @ sense).tolist(), strict=True))
        low, high = min(cosines.values()), max(cosines.values())
        fits = {
            place: WORDS_SHARE * by_words.get(place, 0.0)
            + (1 - WORDS_SHARE) * ((cosine - low) / (high - low) if high > low else 1.0)
            for place, cosine in cosines.items()
            if place in by_words or cosine >= LEAST_COSINE
        }
        best = max(fits.values(), default=1.0)
        return {place: fit / best for place, fit in fits.items() if fit > 0}

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Of each text its telling words alone: they make the sense, the frequent ones blur it."""
        return self._embedder.embed([" ".join(telling_words(text)) for text in texts])

    def _nearest(self, sense: NDArray[np.float32], most: int) -> list[int]:
        """The places of the memories with the most signs in common."""
        distances = np.bitwise_count(self._codes ^ _signs(sense[None, :])[0]).sum(axis=1)
        if len(distances) > most:
            return [int(place) for place in self._places[np.argpartition(distances, most)[:most]]]
        return [int(place) for place in self._places]

    def _read(self, database: sqlite3.Connection) -> None:
        """Read the signs that are new since the last time; all of them, where many are stale."""
        if len(self._places) > STALE * figure(database, "count") + EMBEDDED_AT_ONCE:
            self._places, self._codes = self._places[:0], self._codes[:0]
        last = int(self._places.max()) if len(self._places) else 0
        sql = "SELECT place, bits FROM memories WHERE place > ? AND bits IS NOT NULL ORDER BY place"
        rows = database.execute(sql, (last,)).fetchall()
        if rows:
            codes = np.frombuffer(b"".join(bits for _, bits in rows), dtype=np.uint64).reshape(len(rows), -1)
            self._places = np.concatenate([self._places, np.array([place for place, _ in rows], dtype=np.int64)])
            self._codes = np.concatenate([self._codes, codes])


def _signs(embedded: NDArray[np.float32]) -> NDArray[np.uint64]:
    """The signs of each row as bits."""
    return np.packbits(embedded > 0, axis=1).view(np.uint64)


def _text(database: sqlite3.Connection, place: int) -> str | None:
    row = database.execute("SELECT text FROM memories WHERE place = ?", (place,)).fetchone()
    return row[0] if row is not None else None
