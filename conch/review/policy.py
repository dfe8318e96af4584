"""Which rows a trainer may use, by what people decided on them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from conch.data import LeftOut, Row
from conch.errors import UsageError
from conch.review.decisions import ReviewDecisions

NotUsed = Literal["not_reviewed", "rejected"]

_POLICY: Final = re.compile(r"all|none|sample:(100|[0-9]{1,2})%")
_WHOLE: Final = 2**64


@dataclass(frozen=True)
class ReviewPolicy:
    """The share of rows that need a person's approval."""

    share: float = 1.0
    """0 to 1; 1 is `all`, 0 is `none`."""

    @classmethod
    def of(cls, text: str) -> ReviewPolicy:
        """The policy `all`, `sample:N%` (N from 0 to 100) or `none`. Raises UsageError for any other text."""
        found = _POLICY.fullmatch(text)
        if found is None:
            raise UsageError(f"review {text[:60]!r} is none of all, none and sample:N% with N from 0 to 100")
        if found[1] is not None:
            return cls(int(found[1]) / 100)
        return cls(1.0 if text == "all" else 0.0)

    def needs(self, row: str) -> bool:
        """Whether the row of this hash needs an approval. The hash decides: the same rows do, each time."""
        return int(row[:16], 16) < self.share * _WHOLE

    def refusal(self, row: str, decisions: ReviewDecisions) -> NotUsed | None:
        """Why the row of this hash may not be used; None: it may. A rejected row may not under any policy."""
        state = decisions.state(row)
        if state == "rejected":
            return "rejected"
        return "not_reviewed" if state == "undecided" and self.needs(row) else None


def reviewed(
    answers: Iterable[Row | LeftOut],
    decisions: ReviewDecisions,
    policy: ReviewPolicy,
    corrections: Iterable[Row] = (),
) -> Iterator[Row | LeftOut]:
    """The answers of `rows_of` with each row that may not be used left out, its reason `not_reviewed` or `rejected`;
    then the rows of `corrections` that may be used, which are read first. A row that came before does not come
    twice."""
    left = {row.row_id: row for row in corrections}
    for answer in answers:
        if isinstance(answer, LeftOut):
            yield answer
            continue
        left.pop(answer.row_id, None)
        reason = policy.refusal(answer.row_id, decisions)
        yield answer if reason is None else LeftOut(reason, answer.action_ids)
    yield from (row for row in left.values() if policy.refusal(row.row_id, decisions) is None)
