"""No file of the project has the marks that a merge leaves."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("conch", "services", "schemas", "tests", "ops", "docs")
MARK = re.compile(rb"^(<{7} |>{7} |={7}$)", re.MULTILINE)
TEXTS = {".md", ".py", ".pyi", ".toml", ".yml", ".yaml", ".html", ".js", ".css", ".json", ".jsonl", ".sh", ".lock", ""}


def test_no_text_has_marks_of_a_merge() -> None:
    """Of the files beside the folders too."""
    files = [*(one for folder in FOLDERS for one in (ROOT / folder).rglob("*")), *ROOT.iterdir()]

    marked = [str(one.relative_to(ROOT)) for one in files if one.suffix in TEXTS and one.is_file() and _has(one)]

    assert marked == []


def _has(file: Path) -> bool:
    return MARK.search(file.read_bytes()) is not None
