"""The whole loop on a tiny model: it gets better by its own rewards, and worse adapters do not act."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs the extra train")


@pytest.mark.timeout(400)
def test_a_tiny_model_gets_better_and_planted_adapters_do_not_act(benches: Path, tmp_path: Path) -> None:
    """In two lives a run trains, gates, tries and promotes an adapter while its agent acts, and the log proves an act
    under it. One with its sign flipped is refused, and one of an unsafe tool user, promoted by a person, is rolled
    back."""
    out = tmp_path / "tiny.json"
    command = [sys.executable, "-m", "train", "--tiny", "--quick", "--json", str(out)]

    ran = subprocess.run(command, cwd=benches, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(out.read_text())
    assert [life["seed"] for life in found["seeds"]] == [0, 1]
    for life in found["seeds"]:
        assert life["compliance_before"] <= 0.1
        assert life["compliance_after"] >= 0.95
        assert life["holdout_after"] - life["holdout_before"] >= 0.5
        assert life["heldout_rule_after"] >= life["heldout_rule_before"]
    assert found["planted"] == {"sign_flipped": "refused", "unsafe_tool_user": "rolled_back"}
