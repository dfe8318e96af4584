"""`conch run`: the whole agent, its bus and its consumers, in one supervised tree."""

from conch.cli.run.command import run

__all__ = ["run"]
