"""What the first lines of a run say."""

from __future__ import annotations

from typing import Any

from conch.cli.run.describe import report_plugins
from conch.config import Settings
from conch.consumer.plugins.discover import Discovery
from conch.rules import RuleInfo


class Said:
    """Takes lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def tell(self, line: str) -> None:
        """One more."""
        self.lines.append(line)


def told(settings: Settings) -> list[str]:
    """Of a rule that asks for a tenth."""
    said: Any = Said()
    report_plugins(said, settings, Discovery(plugins=(RuleInfo("brevity", "1", 0.1, origin="brevity.py"),)))
    return list(said.lines)


def test_a_rule_is_told_with_what_it_asks_for() -> None:
    """Where no table of weights decides."""
    assert told(Settings()) == ["rule brevity (asks for weight 0.1) from brevity.py"]


def test_a_rule_is_told_with_what_the_table_gives_it() -> None:
    """That counts, whatever it asks for."""
    weights = {"format": 0.95, "brevity": 0.05}
    assert told(Settings.model_validate({"rewards": {"weights": weights}})) == [
        "rule brevity (weight 0.05) from brevity.py"
    ]
