"""The last line of a screen, which shows its keys."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

CLOSE = 60
"""Columns below which keys have no space between them."""


class KeyBar(Footer):
    """A footer that shows keys whole; where there is not room for all, the help and the first that fit beside it."""

    def compose(self) -> ComposeResult:
        """Show as many keys as fit."""
        self.compact = self.app.size.width < CLOSE
        keys = [key for key in super().compose() if isinstance(key, FooterKey)]
        while sum(map(self._cells, keys)) > self.app.size.width + self.compact:  # no gap behind the last
            del keys[-2 if keys[-1].key == "question_mark" else -1]
        yield from keys

    def _cells(self, key: FooterKey) -> int:
        return len(key.key_display) + len(key.description) + (2 if self.compact else 3)

    def on_resize(self) -> None:
        """Others fit."""
        self.refresh(recompose=True)
