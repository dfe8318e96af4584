"""A line at the end of a terminal that is renewed in place, and goes before anything else is written."""

from __future__ import annotations

import os
import sys
from shutil import get_terminal_size

from conch.text import safe_text

_CLEAR = "\r\x1b[2K"
"""ECMA-48: to the first column, erase the line."""


class WaitLine:
    """The renewed line on stdout. Where stdout is no terminal that can erase a line, it shows nothing."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled and os.environ.get("TERM", "dumb") != "dumb"
        self._shown = False

    def show(self, text: str) -> None:
        """Put `text` in the place of the line, cut to the terminal's width; empty: the line goes."""
        if not text:
            self.clear()
        elif self.enabled:
            from rich.text import Text

            line = Text(safe_text(text, one_line=True))
            line.truncate(max(1, get_terminal_size().columns - 1), overflow="ellipsis")
            sys.stdout.write(_CLEAR + line.plain)
            sys.stdout.flush()
            self._shown = True

    def clear(self) -> None:
        """Erase the line. A second call does nothing."""
        if self._shown:
            self._shown = False
            sys.stdout.write(_CLEAR)
            sys.stdout.flush()
