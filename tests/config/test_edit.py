"""`rewards.weights` written into conch.yaml in place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config.commented import commented
from conch.config.edit import with_weights, write_weights
from conch.config.yaml_file import read_text
from conch.errors import ConfigError

TABLE = {"format": 0.25, "brevity": 0.75}
LAYOUTS = {
    "nothing": "",
    "comments alone": "# mine\n",
    "a marker alone": "---\n",
    "another section": "seed: 4  # four\n",
    "no line end": "seed: 4",
    "an empty section": "rewards:\n\n# below\nseed: 4\n",
    "an empty section, said so": "rewards: ~ # none yet\nseed: 4\n",
    "a section": "rewards:\n    # wait\n    deadline: 5\nseed: 4\n",
    "a section in braces": "rewards: {deadline: 5} # one\nseed: 4\n",
    "an empty section in braces": "rewards: {}\n",
    "a table": "rewards:\n  # shares\n  weights:\n    # talk\n    goal: 1.0 # all\n\n  deadline: 5 # s\n",
    "a table with a part": "rewards:\n  weights: # mine\n    brevity: '0.1'  # short\n    goal: 0.9\n  deadline: 5\n",
    "a table in braces": "rewards:\n  deadline: 5\n  weights: {goal: 1} # all\nseed: 4\n",
    "an empty table": "rewards:\n  weights: # none\n  deadline: 5\n",
    "an empty table, said so": "rewards:\n  weights: ~\n  deadline: 5\n",
    "all in braces": "{rewards: {weights: {goal: 1}, deadline: 5}, seed: 4}\n",
    "all in braces, the table last": "{seed: 4, rewards: {deadline: 5, weights: {goal: 1}}}\n",
    "all in braces without a section": "{seed: 4}\n",
    "lines of another system": "# mine\r\nrewards:\r\n  # wait\r\n  deadline: 5\r\n",
    "a byte order mark": "\ufeffrewards:\n  deadline: 5\n",
    "as conch init writes it": commented(),
}


def said(text: str) -> Any:
    values: Any = read_text(text.removeprefix("\ufeff"), "text") or {}
    rewards = dict(values.get("rewards") or {})
    table = rewards.pop("weights", None)
    return {key: value for key, value in values.items() if key != "rewards"}, rewards, table


def comments(text: str) -> list[str]:
    return sorted(re.findall(r"#.*", text.replace("#weights:", "")))


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_the_table_is_written_and_nothing_else_changes(text: str) -> None:
    """Whatever the layout: the weights stand there, every other value and every comment as before; twice is once."""
    changed = with_weights(text, TABLE, "conch.yaml")

    assert said(changed) == (*said(text)[:2], {"format": "0.25", "brevity": "0.75"})
    lost = set(comments(text)) - set(comments(changed))
    assert lost <= {"# all"} if "goal: 1.0 # all" in text else not lost  # a comment on a part goes with it
    assert with_weights(changed, TABLE, "conch.yaml") == changed
    assert ("\r\n" in text) == ("\r\n" in changed) == ("\n" not in changed.replace("\r\n", "") and "\r\n" in changed)


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_the_table_is_taken_out_and_nothing_else_changes(text: str) -> None:
    """What was written goes without a trace of any other change; comments on the table itself go with it."""
    cleared = with_weights(with_weights(text, TABLE, "conch.yaml"), None, "conch.yaml")

    assert said(cleared) == (*said(text)[:2], None)
    assert set(comments(cleared)) >= {
        one for one in comments(text) if one not in ("# all", "# mine", "# short", "# none")
    }


def test_a_new_homes_file_is_as_before_once_the_table_is_gone() -> None:
    """The key that was commented out is used, and is commented out again."""
    text = commented()

    changed = with_weights(text, TABLE, "conch.yaml")

    assert changed.count("weights:") == text.count("weights:")
    assert with_weights(changed, None, "conch.yaml") == text


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True), st.floats(0, 1), min_size=1, max_size=8))
def test_any_table_is_read_as_it_was_written(table: dict[str, float]) -> None:
    """To the last bit, over any table that was there."""
    text = with_weights(LAYOUTS["a table with a part"], table, "conch.yaml")

    assert {part: float(weight) for part, weight in said(text)[2].items()} == table


def test_what_cannot_be_changed_without_harm_is_left_alone() -> None:
    """A table in braces with comments in it would lose them."""
    with pytest.raises(ConfigError, match=r"conch.yaml is laid out .* edit rewards.weights by hand"):
        with_weights("rewards:\n  weights: {goal: 1, # all\n    format: 0}\n", TABLE, "conch.yaml")


def test_the_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    """A link to a file elsewhere stays one; who may read it stays so."""
    real, link = tmp_path / "real.yaml", tmp_path / "conch.yaml"
    real.write_text("seed: 4\n")
    real.chmod(0o640)
    link.symlink_to(real)

    write_weights(link, TABLE)

    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert said(real.read_text())[2] == {"format": "0.25", "brevity": "0.75"}


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    """With the table alone."""
    write_weights(tmp_path / "conch.yaml", TABLE)

    assert (tmp_path / "conch.yaml").read_text() == "rewards:\n  weights:\n    format: 0.25\n    brevity: 0.75\n"
