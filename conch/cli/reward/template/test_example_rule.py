"""What the rule pays. `python -m unittest` in this directory runs it, and so does pytest."""

import unittest
from pathlib import Path

from conch.consumer.recorded import recorded_acts

from example_rule import example_rule

ACTS = recorded_acts(Path(__file__).with_name("actions.jsonl"))


class TestRule(unittest.TestCase):
    def test_the_recorded_acts(self) -> None:
        """Resting, writing a file, reading one that is not there, reflecting, prose."""
        values = [example_rule(act) for act in ACTS]

        self.assertEqual(values, [1.0, 0.28, 0.99, 0.71, 0.92])

    def test_no_reply_is_not_applicable(self) -> None:
        """None is no score; 0.0 would be one."""
        silent = ACTS[0].model_copy(update={"raw": "", "raw_length": 0})

        self.assertIsNone(example_rule(silent))


if __name__ == "__main__":
    unittest.main()
