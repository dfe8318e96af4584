"""Draws a report: one HTML page without scripts and without anything that is fetched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from conch.report.seal import embedded
from conch.text import safe_text
from conch.views import action_words, check_words, signed, step_words

if TYPE_CHECKING:
    from conch.report.models import Report
    from conch.views import LearningCurve

WIDTH, HEIGHT = 600.0, 90.0
"""Of the curve, in the units of its drawing."""
MOST_SHOWN: Final = 4000
"""Characters of a text that are shown; the document within the page has all that was recorded."""


def rendered(report: Report) -> str:
    """The page. Every text is escaped and shown as text; the same report gives the same page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "signed": signed,
        "said": said,
        "action": action_words,
        "check": check_words,
        "step": step_words,
    }
    return templates.get_template("report.html").render(
        report=report, data=embedded(report), line=line, lines=lines, zero_of=zero_of, width=WIDTH, height=HEIGHT
    )


def said(text: str, most: int = MOST_SHOWN) -> str:
    """A text for people: control characters made visible, cut with a word on what is left out."""
    shown = safe_text(text[:most])
    return shown if len(text) <= most else f"{shown}… ({len(text) - most:,} more characters)"


def lines(shown: LearningCurve) -> list[tuple[str, str]]:
    """(name, the points of its drawing) of each curve, all to one scale. A curve that acts in blocks is one line over
    its gaps."""
    last = max(shown.cycles, default=0) or 1
    scale = HEIGHT / _span(shown)
    _, top = _ends(shown)
    return [
        (
            name,
            " ".join(
                f"{cycle / last * WIDTH:.1f},{(top - value) * scale:.1f}"
                for cycle, value in zip(shown.cycles, values, strict=True)
                if value is not None
            ),
        )
        for name, values in shown.curves.items()
    ]


def zero_of(shown: LearningCurve) -> float:
    """The height of 0 in `lines`."""
    return _ends(shown)[1] * HEIGHT / _span(shown)


def _ends(shown: LearningCurve) -> tuple[float, float]:
    known = [value for values in shown.curves.values() for value in values if value is not None]
    return min(0.0, *known), max(0.0, *known)


def _span(shown: LearningCurve) -> float:
    low, high = _ends(shown)
    return max(high - low, 1e-9)


def line(curve: Sequence[float], start: float | None = None) -> tuple[str, float, float | None]:
    """(the points of the drawing `x,y x,y …`, the height of 0, that of `start`), from the least value at the bottom to
    the greatest at the top, 0 always between."""
    known = [*curve, 0.0] if start is None else [*curve, 0.0, start]
    low, high = min(known), max(known)
    scale = HEIGHT / max(high - low, 1e-9)
    step = WIDTH / max(len(curve) - 1, 1)
    points = (f"{number * step:.1f},{HEIGHT - (value - low) * scale:.1f}" for number, value in enumerate(curve))
    return " ".join(points), HEIGHT + low * scale, None if start is None else HEIGHT - (start - low) * scale
