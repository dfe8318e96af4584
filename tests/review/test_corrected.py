"""A person's correction of a row: the row with the right reply, and its pairs with the original one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from pydantic import JsonValue

from conch.data import Format
from conch.errors import UsageError
from conch.review import corrected_rows

if TYPE_CHECKING:
    from tests.review.conftest import MakeRow


def _reply(text: str) -> list[JsonValue]:
    return [{"role": "assistant", "content": text}]


RIGHT = _reply("git.log")


@pytest.mark.parametrize("format", ["sft", "kto"])
def test_a_corrected_row_has_the_right_reply_and_a_pair_with_the_original(row: MakeRow, format: Format) -> None:
    """Their origin says so; a reply that was not run has no reward; for KTO it is a good one."""
    before = row(format, split="eval")

    right, *pairs = corrected_rows(before, " git.log\n")

    assert right.columns == {**before.columns, "completion": RIGHT} | ({"label": True} if format == "kto" else {})
    assert (right.format, right.origin, right.split) == (format, "corrected", "eval")
    assert (right.reward, right.status) == (None, "")
    assert (right.action_ids, right.prompt_hash) == (before.action_ids, before.prompt_hash)
    assert [(pair.format, pair.tier, pair.origin) for pair in pairs] == [
        ("dpo", "A", "corrected"),
        ("reward", "A", "corrected"),
    ]
    for pair in pairs:
        assert pair.columns == {
            "prompt": before.columns["prompt"],
            "chosen": RIGHT,
            "rejected": before.columns["completion"],
        }
    assert len({before.row_id, right.row_id, *(pair.row_id for pair in pairs)}) == 4
    assert corrected_rows(before, "git.log") == (right, *pairs)


def test_of_a_pair_the_chosen_reply_is_corrected(row: MakeRow) -> None:
    """It stays beside the rejected one, and stands in a pair against the reply that it replaces."""
    before = row("dpo")

    right, pair, _ = corrected_rows(before, "git.log")

    assert right.columns == {**before.columns, "chosen": RIGHT}
    assert (pair.columns["chosen"], pair.columns["rejected"]) == (RIGHT, before.columns["chosen"])


@pytest.mark.parametrize(
    ("format", "text", "says"),
    [
        ("grpo", "git.log", "a row of grpo has no reply to edit"),
        ("sft", " \n", "a correction needs the reply"),
        ("sft", "ö" * 20_000, "the correction has 40,000 bytes, at most 32,768"),
        ("sft", "filesystem.read 0", "the correction is the reply that is there"),
    ],
)
def test_what_is_no_correction_is_refused(row: MakeRow, format: Format, text: str, says: str) -> None:
    """One sentence says why; nothing is cut."""
    with pytest.raises(UsageError, match=says):
        corrected_rows(row(format), text)


def test_an_action_is_not_corrected_into_what_is_none(row: MakeRow) -> None:
    """A tool of any agent may be called, but a reply that no agent can act on is not trained on."""
    before = row()
    action = msgspec.structs.replace(before, columns={**before.columns, "completion": _reply("REFLECT: all")})

    for text, says in (("git.log", "neither TOOL:"), ('TOOL: crane(height="3"', r"\) is missing")):
        with pytest.raises(UsageError, match=f"the correction is no action that an agent can take: .*{says}"):
            corrected_rows(action, text)

    (right, *_) = corrected_rows(action, 'TOOL: crane(height="3")')
    assert right.columns["completion"] == _reply('TOOL: crane(height="3")')


def test_a_lone_surrogate_is_replaced(row: MakeRow) -> None:
    """The row can be written as UTF-8."""
    (right, *_) = corrected_rows(row(), "a\ud800b")

    assert right.columns["completion"] == [{"role": "assistant", "content": "a\ufffdb"}]
