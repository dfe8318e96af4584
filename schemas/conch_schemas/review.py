"""The event of a person's decision on a row of training data."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from conch_schemas.envelope import Event

REVIEWER_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
"""The name of a reviewer: 1 to 64 letters, digits, `.`, `_`, `@` and `-`, the first a letter or a digit."""
ROW_PATTERN: Final = r"^[0-9a-f]{64}$"
"""The hash of a row: SHA-256, hexadecimal."""

Reviewer = Annotated[str, Field(pattern=REVIEWER_PATTERN)]
RowHash = Annotated[str, Field(pattern=ROW_PATTERN)]
ReviewDecision = Literal["approved", "rejected", "edited"]


class ReviewDecided(Event):
    """A person decided on a row of training data. Its action and its cycle are those of the row's first act; both are
    None for a row that no act made.

    Of several decisions of one reviewer on one row the last one on the stream counts.
    """

    TYPE: ClassVar = "review.decided"
    type: Literal["conch.v1.review.decided"] = "conch.v1.review.decided"
    row: RowHash
    """The row's hash, which is taken over its content and its lineage: it stands for no changed row."""
    format: Annotated[str, Field(min_length=1, max_length=32)]
    """The format of the row: `sft`, `dpo`, `kto`, `grpo` or `reward`."""
    acts: tuple[str, ...] = ()
    """Ids of the actions that the row was made of; of a pair the chosen one, then the rejected one."""
    reviewer: Reviewer
    number: Annotated[int, Field(ge=1)]
    """Number of this reviewer's decision on this row, from 1."""
    decision: ReviewDecision
    """`edited`: the row is not used, the rows of `corrected` are."""
    reason: str = ""
    """The person's reason; empty only where none was asked for."""
    text: str | None = None
    """The reply that would have been right, of `edited` alone."""
    corrected: tuple[RowHash, ...] = ()
    """Hashes of the rows that the correction makes, approved by this decision: the row with the corrected reply, then
    its pairs with the original one."""
    preferred: Literal["chosen", "rejected"] | None = None
    """Of a pair that was judged without knowing which reply was chosen: the reply that the reviewer preferred."""
