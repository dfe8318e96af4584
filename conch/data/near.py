"""Texts that are nearly the same: of a pair of replies, and of the rows of a data set."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from conch.data.row import Row
from conch.errors import UsageError
from conch.text import fingerprint

if TYPE_CHECKING:
    from rensa import RMinHashDeduplicator

WINDOW: Final = 10_000
"""Rows that a row is compared with: the last ones that went in. It bounds the memory, some 10 MB."""
_SHINGLE: Final = 3
"""Characters of a shingle of a reply, and words of a shingle of a prompt (`_shingles` names them one by one)."""
_PERMUTATIONS: Final = 128
"""Values of a signature: the similarity that it estimates is off by 0.09 at most in two thirds of the cases."""
_SEED: Final = 1


def alike(one: str, other: str) -> float:
    """Similarity of two replies, 0 to 1: of the sets of their sequences of three characters, by Jaccard."""
    first, second = _characters(one), _characters(other)
    return len(first & second) / len(first | second)


class NearDuplicates:
    """Finds rows that nearly repeat one of the last WINDOW rows: in the same state, the same replies with numbers, ids
    and times masked, and a last message of the prompt that is similar from `threshold` on.

    MinHash by rensa. Raises UsageError where it is not installed.
    """

    def __init__(self, threshold: float) -> None:
        try:
            from rensa import RMinHashDeduplicator
        except ImportError as error:
            raise UsageError(
                "near-duplicates are found by rensa, which is not installed: pip install 'conch-agent[data]'"
            ) from error
        self._known: RMinHashDeduplicator = RMinHashDeduplicator(threshold, _PERMUTATIONS, True, seed=_SEED)
        self._keys: deque[str] = deque()

    def repeats(self, row: Row) -> bool:
        """Whether the row nearly repeats one of before. One that does not is compared with later ones."""
        from rensa import RMinHash

        signature = RMinHash(_PERMUTATIONS, _SEED)
        signature.update(_shingles(row))
        if not self._known.add(row.row_id, signature):
            return True
        self._keys.append(row.row_id)
        if len(self._keys) > WINDOW:
            self._known.remove(self._keys.popleft())
        return False


def _shingles(row: Row) -> list[str]:
    """Each begins with the state and the replies: rows that differ in these have none in common."""
    replies = [
        _last(row.columns[name]) for name in ("completion", "chosen", "rejected") if row.columns.get(name) is not None
    ]
    head = f"{row.state_key} {fingerprint(chr(10).join(replies))}"
    words = _last(row.columns.get("prompt")).split()
    if len(words) < _SHINGLE:
        return [f"{head} {' '.join(words)}"]
    return [f"{head} {one} {two} {three}" for one, two, three in zip(words, words[1:], words[2:], strict=False)]


def _last(messages: object) -> str:
    """The content of the last message."""
    last = messages[-1] if isinstance(messages, list) and messages else {}
    return str(last.get("content", "")) if isinstance(last, dict) else ""


def _characters(text: str) -> set[str]:
    return {text[at : at + _SHINGLE] for at in range(max(1, len(text) - _SHINGLE + 1))}
