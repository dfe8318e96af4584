"""Experiences and agents of the bench, which simulates them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "ops" / "benches" / "watch.py"


@pytest.fixture(scope="session")
def simulated() -> ModuleType:
    """The bench of the watchers: `Agent`, `experience`, `watched`."""
    sys.path.insert(0, str(BENCH.parent))  # it imports what the benches share
    spec = importlib.util.spec_from_file_location("bench_of_the_watchers", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCH.parent))
    return module
