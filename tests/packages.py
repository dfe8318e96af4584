"""A package of a user's own, with entry points, on the import path."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Protocol

import pytest


class Install(Protocol):
    """Installs a package."""

    def __call__(self, points: str, module: str, name: str = "oracle_plugin") -> Path:
        """`points`: the text of its entry_points.txt; `module`: of its only module, `name`. The folder of both."""
        ...


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(str(folder))

    def install(points: str, module: str, name: str = "oracle_plugin") -> Path:
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)
        (folder / f"{name}.py").write_text(module)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return folder

    return install


GUIDE = Path(__file__).parents[1] / "docs" / "pages" / "guides" / "plugins.md"
[MIND] = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
"""The module of the guide: a mind that calls a tool, and the tool."""
