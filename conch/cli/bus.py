"""`conch bus`: the commands of the message bus (info, bench, tail, snapshot, restore, permissions)."""

from __future__ import annotations

from cyclopts import App

COMMANDS = {
    "info": ("conch.cli.survey:info", "The server, the stream, the consumers, and what to look after."),
    "tail": ("conch.cli.tail:tail", "Follow the facts as they come."),
    "bench": ("conch.cli.bench:bench", "How fast this very bus is."),
    "snapshot": ("conch.cli.backup:snapshot", "Write stream and bucket into a file, of one moment."),
    "restore": ("conch.cli.backup:restore", "Put the bus of a file back, where there is none."),
    "permissions": ("conch.cli.permissions:permissions", "Users for a NATS server of your own, one a consumer."),
}
"""Name -> import path of its function, and its line in the help (nothing is imported for that)."""

app = App(name="bus", help="The message bus: what it holds, how fast it is, a copy of it, who may do what.")
for _name, (_place, _line) in COMMANDS.items():
    app.command(_place, name=_name, help=_line)
