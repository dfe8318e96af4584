"""A PID namespace for a plug-in's process: it sees and signals only processes that it started itself, and all of them
end with it. Files, network and devices are those of the machine.
"""

from __future__ import annotations

import functools
import os
import signal

from conch.processes.bubblewrap import BubblewrapTrial, try_bubblewraps

_ALONE = "--dev-bind / / --proc /proc --unshare-pid --die-with-parent"
_WAYS = {True: ("--cap-add ALL", "--unshare-user"), False: ("--unshare-user",)}
"""Further options, by whether we are root, the best first. In a user namespace a root may not read what others own."""


def own_namespace() -> tuple[str, ...] | None:
    """The beginning of a command line that runs the rest of it in such a namespace; None where there can be none."""
    return _found()[0]


def why_none() -> str | None:
    """The reason why there can be no namespace on this machine; None where there can."""
    return _found()[1]


def exit_status(status: int) -> int:
    """The exit status in the form of `subprocess`: -9 for SIGKILL, where bubblewrap gives 128 plus the signal's
    number."""
    by_signal = own_namespace() is not None and status - 128 in set(signal.Signals)
    return 128 - status if by_signal else status


@functools.cache
def _found() -> tuple[tuple[str, ...] | None, str | None]:
    """Found by trial runs of some milliseconds."""
    trial = BubblewrapTrial(None, ())
    for way in _WAYS[os.geteuid() == 0]:
        options = (*_ALONE.split(), *way.split(), "--")
        trial = try_bubblewraps(functools.partial(_trial_command, options))
        if trial.program is not None:
            return (trial.program, *options), None
    return None, trial.why_none


def _trial_command(options: tuple[str, ...], program: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The command line of a trial, and the descriptors that it needs."""
    return (program, *options, "true"), ()
