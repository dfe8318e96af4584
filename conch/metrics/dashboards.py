"""The dashboards for Grafana: files that come with the package, made by `ops/dashboards` at development time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

from conch.config import BUILTIN_COMPONENTS, Settings
from conch.consumer import expected_parts
from conch.consumer.plugins import Discovery

NAMES: Final = ("conch-agent", "conch-rewards", "conch-bus", "conch-fleet")
REWARDS = "conch-rewards"
PANELS_A_ROW, WIDTH, HEIGHT = 2, 12, 8
"""Of the panels of components, in Grafana's grid of 24 columns."""
COMPONENT = "COMPONENT"
"""Stands in the panel's template for the component's name, which is small letters, digits, `_` and `-`."""


def dashboard_texts(components: Sequence[str]) -> dict[str, str]:
    """Name of each file -> its text. The rewards have a panel more for each of `components`; without any, all files are
    as they come with the package."""
    texts = {f"{name}.json": _text(f"grafana/{name}.json") for name in NAMES}
    if components:
        board = json.loads(texts[f"{REWARDS}.json"])
        board["panels"] += _panels(components, board["panels"])
        texts[f"{REWARDS}.json"] = json.dumps(board, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
    return texts


def own_components(settings: Settings, plugins: Discovery) -> list[str]:
    """Components of plug-ins, judges and other programs, in the order of the weight set.

    Raises ConfigError where settings and plug-ins do not go together.
    """
    parts = expected_parts(settings, plugins)
    return [part.component for part in parts if part.component not in BUILTIN_COMPONENTS]


def title_of(name: str) -> str:
    """How a dashboard is called in Grafana."""
    return str(json.loads(_text(f"grafana/{name}.json"))["title"])


def _panels(components: Sequence[str], before: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    template = _text("component_panel.json")
    number = max(panel["id"] for panel in before)
    below = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in before)
    made = []
    for at, component in enumerate(components):
        row, column = divmod(at, PANELS_A_ROW)
        position = {"h": HEIGHT, "w": WIDTH, "x": WIDTH * column, "y": below + HEIGHT * row}
        panel = json.loads(template.replace(COMPONENT, component))
        made.append(panel | {"id": number + 1 + at, "gridPos": position})
    return made


def _text(path: str) -> str:
    return (files("conch.metrics") / path).read_text("utf-8")
