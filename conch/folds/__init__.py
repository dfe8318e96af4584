"""Shared parts of the pure folds: order of an agent's acts, fingerprint deduplication, fast model construction."""
