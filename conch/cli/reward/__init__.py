"""`conch reward …`: the components of the reward, their scorers and weights; one file a command, imported when
called."""

from __future__ import annotations

from cyclopts import App

COMMANDS = {
    "list": ("listing:list_", "Every component: weight, range, version, coverage, mean, errors, lag."),
    "show": ("listing:show", "One component: where it comes from, its weights, versions and last scores."),
    "weights": ("weights:weights", "The weight set in force; --set makes another one, at once and in conch.yaml."),
    "new": ("new:new", "Write a rule as a small package that works as it is."),
    "test": ("trying:try_", "Score recorded acts with a rule, without a bus; exit status 4 where one could not be."),
    "backfill": ("backfill:backfill", "Score recorded history with a rule, or with a new version of it."),
    "compare": ("compare:compare", "Where two scorers, or two versions of one, agree and differ."),
    "score": ("score:score", "Say yourself what a cycle was worth."),
}
"""Name -> import path of its function, and its line in the help (nothing is imported for that)."""

app = App(name="reward", help="What the agent's acts are worth, and who says so.")
for _name, (_place, _line) in COMMANDS.items():
    app.command(f"conch.cli.reward.{_place}", name=_name, help=_line)
