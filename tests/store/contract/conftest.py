"""What every experience store promises: each test of this folder has each store."""

from __future__ import annotations

TOTAL = 0.3 * 0.5 + 0.25 * 0.2 + 0.2 * 0.125 + 0.1 * 0.5
"""Of a cycle as `Facts.judged` makes it, under the weights of `Facts.weights`."""
