"""What the rule pays, for the rule as it was written: pay something else, and write these anew. `python -m unittest` in
this directory runs them, and so does pytest."""

import unittest
from pathlib import Path

from conch.consumer.plugins.replay_file import recorded_acts

from example_rule import example_rule

PAID = {"do_nothing": 0.0, "filesystem.write": 0.28, "filesystem.read": 0.0, "reflect": 0.0, "invalid": 0.0}
"""By the skill of the act; these come first in the file, and what is recorded behind them is not looked at."""
ACTS = recorded_acts(Path(__file__).with_name("actions.jsonl"))[: len(PAID)]


class TestRule(unittest.TestCase):
    def test_the_recorded_acts(self) -> None:
        """Resting, writing a file, reading one that is not there, reflecting, prose."""
        values = {act.action.skill: example_rule(act) for act in ACTS}

        self.assertEqual(values, PAID)

    def test_no_reply_is_not_applicable(self) -> None:
        """None is no score; 0.0 would be one."""
        silent = ACTS[0].model_copy(update={"raw": "", "raw_length": 0})

        self.assertIsNone(example_rule(silent))


if __name__ == "__main__":
    unittest.main()
