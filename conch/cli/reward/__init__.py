"""`conch reward …`: what the agent's acts are worth, and who says so; one file a command, imported when called."""

from __future__ import annotations

from cyclopts import App

app = App(name="reward", help="What the agent's acts are worth, and who says so.")
app.command("conch.cli.reward.listing:list_", name="list")
app.command("conch.cli.reward.weights:weights")
app.command("conch.cli.reward.new:new")
app.command("conch.cli.reward.trying:try_", name="test")
app.command("conch.cli.reward.backfill:backfill")
app.command("conch.cli.reward.listing:show")
app.command("conch.cli.reward.score:score")
app.command("conch.cli.reward.compare:compare")
