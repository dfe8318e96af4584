"""What the tide should do."""

import unittest

from tidepool.tide import minutes, risen, slack


class TestTide(unittest.TestCase):
    def test_half_of_the_water_has_come_after_three_hours(self) -> None:
        self.assertEqual(risen(3), 0.5)

    def test_all_of_it_has_come_after_six(self) -> None:
        self.assertEqual(risen(6), 1.0)

    def test_a_clock_is_read_in_minutes(self) -> None:
        self.assertEqual(minutes("09:21"), 561)

    def test_the_slack_is_twenty_minutes_around_the_turn(self) -> None:
        self.assertEqual(slack("11:43"), ("11:33", "11:53"))


if __name__ == "__main__":
    unittest.main()
