"""Weighs parcels."""
