"""The entry point of the command `conch`. Each noun is a file beside this one, imported when it is used."""

from __future__ import annotations

import errno
import resource
import sys
import warnings

from cyclopts import App

from conch.cli.streams import discard_unwritten, flush_output, lead_nowhere, open_streams
from conch.errors import ConchError
from conch.text import safe_text

COMMANDS = {
    "init": ("conch.cli.init:init", "Make a home: settings, a workspace, goals."),
    "doctor": ("conch.cli.doctor:doctor", "Check this machine, the home and the mind's endpoint."),
    "run": ("conch.cli.run:run", "Run the agent with its bus and its consumers."),
    "agent": ("conch.cli.agent:app", "Agents on the bus of another machine: run."),
    "status": ("conch.cli.status:status", "One screen: processes, agent, rewards, needs, lag, dead letters."),
    "ui": ("conch.cli.ui:ui", "The dashboard alone, beside a run or without one; --link prints a way in."),
    "watch": ("conch.cli.watch:watch", "Follow the cycles of a run live."),
    "chat": ("conch.cli.chat:chat", "A conversation with the agent, with the reward and the mark of each answer."),
    "tell": ("conch.cli.talk:tell", "Tell the agent something; it answers with its tool reply."),
    "pause": ("conch.cli.talk:pause", "Let the agent wait before its next cycle."),
    "resume": ("conch.cli.talk:resume", "Let it go on."),
    "stop": ("conch.cli.talk:stop", "End the run in order."),
    "consume": ("conch.cli.consume:consume", "Run one consumer alone, against a bus."),
    "cycle": ("conch.cli.cycle:app", "Cycles: list, show, diff, replay."),
    "report": ("conch.cli.report:app", "Signed HTML pages of cycles and runs: cycle, run, verify."),
    "team": ("conch.cli.team:app", "Teams, several roles on one task: run, list, show, switch, stop."),
    "fork": ("conch.cli.fork:fork", "Other decisions for a recorded prompt, tried in a copy of the workspace."),
    "prompt": ("conch.cli.prompt:app", "Prompts: show what the mind was asked with, or would be."),
    "approve": ("conch.cli.approve:app", "Acts that wait for your approval: list, approve, deny."),
    "review": ("conch.cli.review:app", "Rows of training data for a person to decide on: next, list, approve, stats."),
    "memory": ("conch.cli.memory:app", "Memories: list, search, show, forget, consolidate."),
    "forget": ("conch.cli.forget:forget", "Remove a person's data from store, stream, memories and files."),
    "tool": ("conch.cli.tool:app", "Tools of the agent: list, test."),
    "need": ("conch.cli.need:app", "Needs: list, history."),
    "goal": ("conch.cli.goal:app", "Goals: list, add, drop, accept, veto."),
    "reward": ("conch.cli.reward:app", "Rewards: list, show, new, test, weights, backfill, compare, score."),
    "consumer": ("conch.cli.consumer:app", "Consumers: list, lag, reset, forget."),
    "mark": ("conch.cli.mark:app", "Witness marks: list, show, verify."),
    "walk": ("conch.cli.walk:app", "Walks, runs of marks with a goal: start, list, show, pause, resume, close."),
    "dlq": ("conch.cli.dlq:app", "Dead letters: list, show, retry, drop."),
    "bus": ("conch.cli.bus:app", "The bus: info, tail, bench, snapshot, restore, permissions."),
    "model": ("conch.cli.model:app", "Models of the local mind: list, install, remove, test."),
    "metrics": ("conch.cli.metrics:app", "Metrics: rules, dashboards, serve."),
    "train": ("conch.cli.train:app", "Adapters of the mind: run, list, show, diff, prove, promote, rollback, stop."),
    "demo": ("conch.cli.demo:app", "Demonstrations: learn."),
    "data": ("conch.cli.data:app", "Data sets for training: export, import, stats, why, prune."),
    "values": ("conch.cli.values:app", "Values and guardrails: show, new, sign."),
    "config": ("conch.cli.config:app", "Settings: show, validate, schema."),
    "completion": ("conch.cli.completion:app", "Completion by the shell: install, show."),
}
"""Name -> import path of its function or group, and its line in the help (nothing is imported for that)."""


LIMITS = {
    errno.EMFILE: ("too many open files", "raise the limit (ulimit -n, now {files})"),
    errno.ENFILE: ("the machine has too many open files", "end other programs, or raise fs.file-max"),
    errno.EAGAIN: (
        "no further process or thread may be started",
        "raise the limit (ulimit -u or -d, a container's limit of pids or memory)",
    ),
    errno.ENOMEM: ("there is not enough memory", "raise the limit (ulimit -v), or give the machine or container more"),
    errno.ENOSPC: ("there is no room left on the device", "make room"),
    errno.EFBIG: ("a file would be larger than the limit", "raise it (ulimit -f)"),
}
"""The name of each limit of the system, and what to do."""


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
    open_streams()
    try:
        make_app()(exit_on_error=False, print_error=False)
        flush_output()
    except ConchError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of stdout closed it (`conch watch | head`): no failure, and Python must not complain at exit.
        lead_nowhere(sys.stdout.fileno())
        sys.exit(0)
    except (MemoryError, OSError, RuntimeError) as error:
        if (number := _limit(error)) is None:
            raise
        sys.unraisablehook = lambda _: None  # what is left half made complains as well
        warnings.simplefilter("ignore")
        what, mend = LIMITS[number]
        where = f" ({name})" if (name := getattr(error, "filename", None)) else ""
        _fail(f"{what}{where}: {mend.format(files=resource.getrlimit(resource.RLIMIT_NOFILE)[0])}", 1)
    except Exception as error:
        if type(error).__module__.startswith("cyclopts"):
            _fail(_misread(error), 2)
        raise
    finally:
        discard_unwritten()


def _misread(error: Exception) -> str:
    """Of a command line that cannot be read: why, in a sentence."""
    unused: list[str] | None = getattr(error, "unused_tokens", None)
    if not unused:
        return f"{error} (conch --help)"
    command = " ".join(["conch", *(getattr(error, "command_chain", None) or ())])
    return f"{command} takes no {' '.join(map(repr, unused))}: {command} --help shows what it takes"


def _limit(error: Exception) -> int | None:
    """The key of LIMITS that an error is about."""
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, OSError):
        return error.errno if error.errno in LIMITS else None
    return errno.EAGAIN if "can't start new thread" in str(error) else None


def _fail(sentence: str, code: int) -> None:
    sys.stderr.write(f"conch: {safe_text(' '.join(sentence.split()))}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
