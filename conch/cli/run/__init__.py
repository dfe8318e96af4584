"""`conch run`: the agent, its bus and its consumers, as one supervised process tree."""

from conch.cli.run.command import run

__all__ = ["run"]
