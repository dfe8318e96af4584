"""`conch watch`: follow a run live, as a screen on a terminal and as JSON Lines in a pipe."""

from conch.cli.watch.command import watch

__all__ = ["watch"]
