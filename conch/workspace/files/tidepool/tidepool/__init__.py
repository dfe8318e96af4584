"""Counts what lives in the pools at Conch Point."""
