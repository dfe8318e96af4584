"""What the sightings should say."""

import unittest
from pathlib import Path

from tidepool.sightings import kinds, read, richest_pool, total, warmest

SIGHTINGS = read(Path(__file__).parent.parent / "data" / "sightings.csv")


class TestSightings(unittest.TestCase):
    def test_every_line_is_read(self) -> None:
        self.assertEqual(len(SIGHTINGS), 25)

    def test_the_prawns_are_counted_together(self) -> None:
        self.assertEqual(total(SIGHTINGS, "prawn"), 121)

    def test_what_was_never_seen_counts_nothing(self) -> None:
        self.assertEqual(total(SIGHTINGS, "mermaid"), 0)

    def test_pool_six_has_stars_and_urchins(self) -> None:
        self.assertEqual(kinds(SIGHTINGS, 6), {"starfish", "urchin"})

    def test_the_richest_pool_is_told_by_kinds_and_not_by_heads(self) -> None:
        self.assertEqual(richest_pool(SIGHTINGS), 3)

    def test_the_warmest_water_was_in_pool_four_in_august(self) -> None:
        found = warmest(SIGHTINGS)
        self.assertEqual((found.pool, found.date), (4, "2026-08-11"))


if __name__ == "__main__":
    unittest.main()
