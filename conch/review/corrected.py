"""The rows that a person's correction of a row makes: the row with the right reply, and its pairs with the original.
Pure."""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from conch.actions import parse
from conch.data import PAIRED, Format, Lineage, Row, make_row
from conch.errors import UsageError
from conch.text import well_formed

CORRECTION_BYTES: Final = 32 * 1024
"""Most bytes of a corrected reply, UTF-8."""


def corrected_rows(row: Row, text: str) -> tuple[Row, ...]:
    """The row with `text` as its reply (of a pair, its chosen one), then for each format of pairs the pair of `text`
    with the reply that it replaces. Their origin is `corrected`; they have no reward, as the reply was not run.

    The same row and text give the same rows. Raises UsageError for a row without a reply, and for a text that is empty,
    longer than CORRECTION_BYTES, the reply that is there, or no action of the grammar where that reply is one.
    """
    column = "chosen" if row.format in PAIRED else "completion"
    if column not in row.columns:
        raise UsageError(f"a row of {row.format} has no reply to edit: approve or reject it")
    text = well_formed(text).strip()
    if not text:
        raise UsageError("a correction needs the reply that would have been right")
    if (size := len(text.encode())) > CORRECTION_BYTES:
        raise UsageError(f"the correction has {size:,} bytes, at most {CORRECTION_BYTES:,} are kept: say it shorter")
    replaced = row.columns[column]
    reply: list[JsonValue] = [{"role": "assistant", "content": text}]
    if replaced == reply:
        raise UsageError("the correction is the reply that is there: approve the row instead")
    if parse(_said(replaced), None).valid and (reason := parse(text, None).reason) is not None:
        raise UsageError(f"the correction is no action that an agent can take: {reason}")
    right: dict[str, JsonValue] = {**row.columns, column: reply}
    if "label" in right:
        right["label"] = True
    pair: dict[str, JsonValue] = {"prompt": row.columns["prompt"], "chosen": reply, "rejected": replaced}
    lineage: Lineage = {
        "agent": row.agent,
        "action_ids": row.action_ids,
        "state_key": row.state_key,
        "prompt_hash": row.prompt_hash,
        "policy": row.policy,
        "weights": row.weights,
        "revision": row.revision,
        "weight": row.weight,
        "role": row.role,
        "split": row.split,
        "origin": "corrected",
    }
    of_pairs: Lineage = {**lineage, "tier": "A"}
    return (
        make_row(row.format, right, **(of_pairs if row.format in PAIRED else lineage)),
        *(make_row(format, pair, **of_pairs) for format in _PAIRS),
    )


def _said(reply: JsonValue) -> str:
    """The text of a reply, a list of one message."""
    match reply:
        case [{"content": str(text)}]:
            return text
        case _:
            return ""


_PAIRS: Final[tuple[Format, ...]] = ("dpo", "reward")
