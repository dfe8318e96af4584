"""Run as a program of its own, which can be ended: finds a pattern in lines. JSON in, JSON out."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """`found`: the lines; or `error`: why the pattern cannot be used."""
    try:
        pattern = re.compile(job["pattern"])
    except (re.error, RecursionError, OverflowError) as error:
        return {"error": str(error)}
    return {"found": list(islice(_lines(pattern, job["texts"]), job["most"]))}


def _lines(pattern: re.Pattern[str], texts: list[tuple[str, str]]) -> Iterator[str]:
    for name, text in texts:
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                yield f"{name}:{number}:{line}"


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
