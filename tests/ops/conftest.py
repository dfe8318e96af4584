"""The benches, importable as they are when `ops/bench` runs them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHES = Path(__file__).resolve().parents[2] / "ops" / "benches"


@pytest.fixture
def benches(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the benches, on the path."""
    monkeypatch.syspath_prepend(BENCHES)
    yield BENCHES
    for name in [name for name in sys.modules if name == "bus" or name.startswith("bus.")]:
        del sys.modules[name]
