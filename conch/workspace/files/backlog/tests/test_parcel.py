import unittest

from parcel.label import label
from parcel.price import price


class TestParcel(unittest.TestCase):
    def test_the_price_rises_with_the_zone(self):
        self.assertEqual(price("far", 3), 12)

    def test_the_street_stands_above_the_town(self):
        self.assertEqual(label("A", "B", "C"), "A\nB\nC")
