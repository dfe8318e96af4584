"""The benches, importable as they are when `ops/bench` runs them; the sandbox under a filter of system calls."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from conch_schemas import JsonObject
from tests.ops.filters import run_sandboxed

BENCHES = Path(__file__).resolve().parents[2] / "ops" / "benches"


@pytest.fixture
def benches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of the benches, on the path."""
    monkeypatch.syspath_prepend(BENCHES)
    yield BENCHES
    for name in [name for name in sys.modules if name.split(".")[0] in ("bus", "run")]:
        del sys.modules[name]


@pytest.fixture
def sandboxed(
    needs: Callable[[str, str], None], lacking: Callable[[str], NoReturn], monkeypatch: pytest.MonkeyPatch
) -> Callable[[JsonObject], subprocess.CompletedProcess[str]]:
    """`run_sandboxed`, where there is what it needs, with the system's Python alone."""
    needs("bwrap", "install bubblewrap")
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        lacking("there is no libseccomp.so.2: install libseccomp2")
    monkeypatch.setattr("conch.tools.isolation.bubblewrap._python", lambda: None)
    return run_sandboxed
