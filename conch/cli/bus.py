"""`conch bus`: the message bus."""

from __future__ import annotations

from cyclopts import App

app = App(name="bus", help="The message bus: permissions.")
app.command(
    "conch.cli.permissions:permissions", name="permissions", help="Users for a NATS server of your own, one a consumer."
)
