"""Measures what an act brought about: pure functions over lines, words and commands; scan and index at the edge."""
