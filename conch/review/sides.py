"""The two replies of a pair, named without saying which was chosen. Pure."""

from __future__ import annotations

import hashlib
from typing import Literal, NamedTuple

from conch.data import PAIRED, Row
from conch.errors import UsageError
from conch.review.decide import ReviewVerdict

Side = Literal["first", "second"]


class Sides(NamedTuple):
    """Which reply is shown first and which second: `chosen` or `rejected`."""

    first: Literal["chosen", "rejected"]
    second: Literal["chosen", "rejected"]

    def named(self, side: Side) -> Literal["chosen", "rejected"]:
        """The reply on this side."""
        return self.first if side == "first" else self.second


def sides_of(row: Row, reviewer: str) -> Sides:
    """The sides of a pair for this reviewer: by a hash of both, so half of the pairs begin with the chosen reply.

    Raises UsageError for a row that is no pair.
    """
    if row.format not in PAIRED:
        raise UsageError(f"a row of {row.format} is no pair: approve, reject or edit it")
    digest = hashlib.sha256(f"{row.row_id}/{reviewer}".encode()).digest()
    return Sides("chosen", "rejected") if digest[0] & 1 else Sides("rejected", "chosen")


def preference(row: Row, reviewer: str, better: Side) -> ReviewVerdict:
    """The verdict of a reviewer who found the reply on this side better: an approval where it is the chosen one, else a
    rejection. Raises UsageError for a row that is no pair."""
    preferred = sides_of(row, reviewer).named(better)
    if preferred == "chosen":
        return ReviewVerdict("approved", preferred=preferred)
    return ReviewVerdict("rejected", "the reply that was not chosen is the better one", preferred=preferred)
