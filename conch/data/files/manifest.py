"""What a snapshot says of itself: counts, filters, lineage, digests. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

import rfc8785
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from conch.data.row import SPLITS, Format, LeftOut, Row, Split
from conch.errors import CheckError

if TYPE_CHECKING:
    from conch.data.acts import CycleDocument

MANIFEST: Final = "manifest.json"


_SAID: Final = ("prompt", "completion", "chosen", "rejected")
"""Columns of messages."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class FileDigest(_Part):
    """A file of a snapshot."""

    rows: int
    bytes: int
    sha256: str


class RowFigures(_Part):
    """What the rows of a snapshot are like."""

    by_skill: dict[str, int] = {}
    by_status: dict[str, int] = {}
    by_origin: dict[str, int] = {}
    by_agent: dict[str, int] = {}
    by_policy: dict[str, int] = {}
    by_weights: dict[str, int] = {}
    by_reward: dict[str, int] = {}
    """Rows by their reward, in steps of 0.25: the lower bound of the step as the key."""
    by_length: dict[str, int] = {}
    """Rows by the characters of their texts: the least power of two that is not exceeded as the key."""
    pairs_by_margin: dict[str, int] = {}
    """Pairs by their margin, in steps of 0.25."""
    pairs_by_tier: dict[str, int] = {}
    longer_by: float | None = None
    """Mean of the characters of the chosen less those of the rejected reply; None without pairs."""
    states: dict[str, int] = {}
    """Different states of each split."""


class Manifest(_Part):
    """The file `manifest.json` of a snapshot, canonical JSON (RFC 8785). `rows_seen` is `rows_in` plus all that was
    left out."""

    conch: str
    """Version that wrote it."""
    redactor: int = 0
    """Version of what redacted the rows (`conch.data.redact.REDACTOR`); 0: an older one, or none. It changes the ids of
    rows that it redacts otherwise."""
    format: Format
    rows_seen: int
    """Acts and pairs that were looked at, and rows that were made beside them."""
    rows_in: int
    left_out: dict[str, int]
    """Reason -> how many."""
    splits: dict[str, int]
    """Rows of each split."""
    filters: dict[str, str | float | int | None]
    """What `Selection` was asked."""
    figures: RowFigures
    why_empty: str = ""
    """A sentence where there are no rows."""
    content: str
    """SHA-256 over the rows as JSON Lines, of train, then of eval, by row id."""
    files: dict[str, FileDigest] = {}
    digest: str = ""
    """SHA-256 over the canonical JSON of all other fields. A snapshot without a name of its own is named by it."""

    def sealed(self) -> Self:
        """With its digest."""
        return self.model_copy(update={"digest": self._computed()})

    def encode(self) -> bytes:
        """The bytes of the file."""
        return rfc8785.dumps(self.model_dump(mode="json")) + b"\n"

    @classmethod
    def decode(cls, text: bytes, where: str) -> Self:
        """The manifest in these bytes. Raises CheckError where they are none, or were edited."""
        try:
            found = cls.model_validate_json(text)
        except ValidationError as error:
            raise CheckError(f"{where} is no manifest of a data set: export it again") from error
        if found.digest != found._computed():
            raise CheckError(f"{where} was edited: its digest is not that of its content; export it again")
        return found

    def _computed(self) -> str:
        older = set() if self.redactor else {"redactor"}  # of a version that did not name it
        return hashlib.sha256(rfc8785.dumps(self.model_dump(mode="json", exclude={"digest", *older}))).hexdigest()


_Alike = tuple[str, str, str, str, str | None, str, str | None, float | None, float | None, int]
"""Agent, origin, skill, status, policy, weights, tier, steps of reward and of margin, and the power of the length."""


class Tally:
    """Counts rows and reasons while a snapshot is made. `seen` is always `rows` plus the sum of `left_out`."""

    def __init__(self) -> None:
        self.seen = 0
        self.rows = 0
        self.left_out: Counter[str] = Counter()
        self._alike: Counter[_Alike] = Counter()
        """Rows that are alike in all that is counted."""
        self._met: Counter[tuple[Split | None, str]] = Counter()
        """Rows by split and state; None: the split is still to be settled."""
        self._longer = 0

    def leave(self, left: LeftOut) -> None:
        """Count what is left out."""
        self.seen += 1
        self.left_out[left.reason] += 1

    def take(self, row: Row) -> None:
        """Count a row that goes in."""
        self.seen += 1
        self.rows += 1
        self._met[row.split, row.state_key] += 1
        reward = None if row.reward is None else row.reward // 0.25
        margin = None if row.tier is None else (row.margin or 0.0) // 0.25
        length = (max(1, _length(row.columns, _SAID)) - 1).bit_length()
        self._alike[
            row.agent, row.origin, row.skill, row.status, row.policy, row.weights, row.tier, reward, margin, length
        ] += 1
        if row.tier is not None:
            self._longer += _length(row.columns, ("chosen",)) - _length(row.columns, ("rejected",))

    def take_cycles(self, rows: Sequence[CycleDocument]) -> None:
        """Count rows of cycles that go in, the split of which is still to be settled."""
        self.seen += len(rows)
        self.rows += len(rows)
        self._met.update([(None, one.state_key) for one in rows])
        self._alike.update([
            (one.agent, one.origin, one.skill, one.status, one.policy, one.weights, None, one.reward // 0.25, None, 0)
            for one in rows
        ])  # fmt: skip

    def add(self, other: Tally) -> None:
        """Count what another one has counted."""
        self.seen += other.seen
        self.rows += other.rows
        self._longer += other._longer
        for counter, more in (
            (self.left_out, other.left_out), (self._alike, other._alike), (self._met, other._met),
        ):  # fmt: skip
            counter.update(more)  # type: ignore[arg-type] # each of the other's is of the same kind

    def settle(self, split: Callable[[str], Split]) -> None:
        """Give each row whose split is still to be settled that of its state."""
        for late in [key for key in self._met if key[0] is None]:
            self._met[split(late[1]), late[1]] += self._met.pop(late)

    def splits(self) -> dict[str, int]:
        """Rows of each split."""
        return {split: sum(rows for (of, _), rows in self._met.items() if of == split) for split in SPLITS}

    def figures(self) -> RowFigures:
        """What the rows are like."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (agent, origin, skill, status, policy, weights, tier, reward, margin, length), rows in self._alike.items():
            found["by_agent"][agent] += rows
            found["by_origin"][origin] += rows
            found["by_length"][str(1 << length)] += rows
            named = {"by_skill": skill, "by_status": status, "by_policy": policy, "by_weights": weights}
            for name, value in named.items():
                if value:
                    found[name][value] += rows
            if reward is not None:
                found["by_reward"][_step(reward)] += rows
            if tier is not None and margin is not None:
                found["pairs_by_tier"][tier] += rows
                found["pairs_by_margin"][_step(margin)] += rows
        counts = {name: dict(sorted(counter.items())) for name, counter in found.items()}
        pairs = sum(found["pairs_by_tier"].values())
        states = {split: sum(of == split for of, _ in self._met) for split in SPLITS}
        return RowFigures.model_validate(
            {**counts, "states": states, "longer_by": self._longer / pairs if pairs else None}
        )

    def why_empty(self) -> str:
        """A sentence for a data set without rows; empty where there are some."""
        if self.rows:
            return ""
        if not self.seen:
            return "There is no act in the store yet: conch run makes some."
        reason, count = max(self.left_out.items(), key=lambda item: (item[1], item[0]))
        return f"All {self.seen} acts and pairs were left out, {count} of them for: {reason}."


def _step(steps: float) -> str:
    return f"{steps * 0.25 + 0.0:+.2f}"  # -0.0 is 0.0, whichever row comes first


def _length(columns: Mapping[str, JsonValue], names: Iterable[str]) -> int:
    """The characters of the messages in these columns, as far as the format has them."""
    length = 0
    for name in names:
        for one in columns.get(name, ()):  # type: ignore[union-attr] # they are lists of messages
            length += len(one["content"])  # type: ignore[call-overload,index,arg-type]
    return length
