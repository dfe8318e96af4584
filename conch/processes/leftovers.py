"""Ends sandbox processes that a killed agent left behind. Runs at every start, without the sandbox's libraries."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import psutil

RULE = "conch.consumer.plugins.rule_worker"
"""The module that a rule's process runs, as its command line names it."""


def end_stale_sandboxes(workspaces: Iterable[Path]) -> int:
    """End sandboxes of these workspaces, and namespaces of rules, that no process waits for; returns their number.

    Bubblewrap ties its inner process to its outer one a moment after it made it. An agent that is killed in that moment
    takes the outer one along, and the inner one waits for ever. It has run nothing yet.
    """
    ended, places = 0, {*(str(workspace.resolve()) for workspace in workspaces), RULE}
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "bwrap" and not places.isdisjoint(process.info["cmdline"] or ()):
            with contextlib.suppress(OSError, psutil.Error):
                if not psutil.pid_exists(os.getsid(process.pid)):  # its session began with the outer one
                    process.kill()
                    ended += 1
    return ended
