"""The limit of samples for each experience that was recorded. Pure."""

from __future__ import annotations

from conch.errors import SampleError, UsageError


class SampleLimiter:
    """Lets at most `per_insert` rows be drawn for each experience that has come, and none before the first `least`.

    A trainer that runs ahead of its agent fits the same few experiences ever closer; the ratio holds it back.
    """

    def __init__(self, per_insert: float, least: int = 1) -> None:
        """Raises UsageError for a ratio that is not above 0, or a `least` below 1."""
        if not per_insert > 0:
            raise UsageError(f"samples per insert are {per_insert}: above 0")
        if least < 1:
            raise UsageError(f"the least number of experiences to sample from is {least}: at least 1")
        self.per_insert = per_insert
        self.least = least
        self.drawn = 0
        """Rows drawn so far."""

    def allowance(self, inserted: int) -> int:
        """Rows that may be drawn now, after so many experiences have come; 0: none."""
        return 0 if inserted < self.least else max(0, int(inserted * self.per_insert) - self.drawn)

    def take(self, rows: int, inserted: int) -> None:
        """Count the rows as drawn. Raises SampleError where fewer may be drawn; nothing is counted then."""
        if rows > (left := self.allowance(inserted)):
            raise SampleError(
                f"{rows} rows are asked for and {left} may be drawn: {inserted} experiences have come, of at least "
                f"{self.least}, {self.per_insert:g} rows each, and {self.drawn} rows are drawn: wait for more "
                "experiences"
            )
        self.drawn += rows
