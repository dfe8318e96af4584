"""The command `conch`. Each noun is a file beside this one, imported when it is asked for."""

from __future__ import annotations

import os
import sys

from cyclopts import App

from conch.errors import ConchError
from conch.text import safe_text

COMMANDS = {
    "init": ("conch.cli.init:init", "Make a home: settings, a workspace, goals."),
    "doctor": ("conch.cli.doctor:doctor", "Check this machine, the home and the mind's endpoint."),
    "run": ("conch.cli.run:run", "Run the agent with its bus and its consumers."),
    "status": ("conch.cli.status:status", "One screen: processes, agent, rewards, needs, lag, dead letters."),
    "ui": ("conch.cli.ui:ui", "The dashboard alone, beside a run or without one; --link prints a way in."),
    "watch": ("conch.cli.watch:watch", "Follow the cycles of a run live."),
    "tell": ("conch.cli.talk:tell", "Tell the agent something; it answers with its tool reply."),
    "pause": ("conch.cli.talk:pause", "Let the agent wait before its next cycle."),
    "resume": ("conch.cli.talk:resume", "Let it go on."),
    "stop": ("conch.cli.talk:stop", "End the run in order."),
    "consume": ("conch.cli.consume:consume", "Run one consumer alone, against a bus."),
    "cycle": ("conch.cli.cycle:app", "Cycles: list, show."),
    "need": ("conch.cli.need:app", "Needs: list, history."),
    "goal": ("conch.cli.goal:app", "Goals: list, add, drop."),
    "reward": ("conch.cli.reward:app", "Rewards: list, show, new, test, weights, backfill, compare, score."),
    "consumer": ("conch.cli.consumer:app", "Consumers: list, lag, reset, forget."),
    "mark": ("conch.cli.mark:app", "Witness marks: list, show, verify."),
    "dlq": ("conch.cli.dlq:app", "Dead letters: list, show, retry, drop."),
    "bus": ("conch.cli.bus:app", "The bus: info, tail, bench, snapshot, restore, permissions."),
    "metrics": ("conch.cli.metrics:app", "Metrics: rules, dashboards, serve."),
    "values": ("conch.cli.values:app", "Values and guardrails: show, new, sign."),
    "config": ("conch.cli.config:app", "Settings: show, validate, schema."),
}
"""Name -> where its function or group stands, and its line in the help (nothing is imported for that)."""


def make_app() -> App:
    """The whole command line."""
    from importlib.metadata import version

    app = App(
        name="conch",
        help="A persistent autonomous agent that learns from its own rewards.",
        version=lambda: version("conch-agent"),
        result_action="return_value",
    )
    for name, (place, line) in COMMANDS.items():
        app.command(place, name=name, help=line)
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
