"""`conch watch`: a screen on a terminal, JSON Lines in a pipe."""

from conch.cli.watch.command import watch

__all__ = ["watch"]
