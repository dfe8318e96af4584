"""The command `conch`. Each noun is a file beside this one, imported when it is asked for."""

from __future__ import annotations

import os
import sys

from cyclopts import App

from conch.errors import ConchError
from conch.text import safe_text

COMMANDS = {
    "init": "conch.cli.init:init",
    "doctor": "conch.cli.doctor:doctor",
    "run": "conch.cli.run:run",
    "status": "conch.cli.status:status",
    "watch": "conch.cli.watch:watch",
    "tell": "conch.cli.talk:tell",
    "pause": "conch.cli.talk:pause",
    "resume": "conch.cli.talk:resume",
    "stop": "conch.cli.talk:stop",
    "consume": "conch.cli.consume:consume",
    "cycle": "conch.cli.cycle:app",
    "need": "conch.cli.need:app",
    "goal": "conch.cli.goal:app",
    "reward": "conch.cli.reward:app",
    "consumer": "conch.cli.consumer:app",
    "mark": "conch.cli.mark:app",
    "dlq": "conch.cli.dlq:app",
    "config": "conch.cli.config:app",
}
"""Name -> where its function or group stands."""


def make_app() -> App:
    """The whole command line."""
    from importlib.metadata import version

    app = App(
        name="conch",
        help="A persistent autonomous agent that learns from its own rewards.",
        version=lambda: version("conch-agent"),
        result_action="return_value",
    )
    for name, place in COMMANDS.items():
        app.command(place, name=name)
    return app


def main() -> None:
    """Run the command; every failure is one sentence on stderr and its exit code."""
    try:
        make_app()(exit_on_error=False, print_error=False)
    except ConchError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read us went (`conch watch | head`): that is no failure, and Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if type(error).__module__.startswith("cyclopts"):
            _fail(f"{error} (conch --help)", 2)
        raise


def _fail(sentence: str, code: int) -> None:
    sys.stderr.write(f"conch: {safe_text(' '.join(sentence.split()))}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
