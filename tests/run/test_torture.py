"""Kill -9 at random moments: nothing is lost, nothing is doubled, nothing is done twice."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

BENCHES = Path(__file__).parents[2] / "ops" / "benches"


@pytest.mark.torture
def test_a_run_survives_being_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs: Callable[[str, str], None]
) -> None:
    """Numbers without a gap, no id twice, every act scored once, no act done again, and the chain of marks holds."""
    needs("bwrap", "install bubblewrap")
    monkeypatch.syspath_prepend(str(BENCHES))
    import torture

    report = torture.torture(tmp_path, kills=6, server_kills=4, seed=len(sys.version))

    assert report.wrong == []
    assert (report.kills, report.server_kills) == (6, 4)
    assert report.cycles >= 10
