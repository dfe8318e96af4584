"""The tools `shell` and `git`, which run programs in the sandbox."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable
from typing import Final, Literal

from conch.actions import BUILTIN_EFFECTS
from conch.errors import ToolError
from conch.tools.declare import ToolContext, ToolResult, tool
from conch.tools.files.outputs import OutputFile
from conch.tools.isolation.bubblewrap import IDENTITY
from conch.tools.isolation.sandbox import ProcessResult, Sandbox

PROGRAM_TOOLS: Final = frozenset({"shell", "git"})
"""The tools of this module: each call of them is blocked where the sandbox cannot confine it."""


def able_tools(names: Iterable[str], sandbox: Sandbox) -> tuple[str, ...]:
    """The tools of these names, without those whose every call is blocked for want of a sandbox. See
    `Sandbox.detect` for its time."""
    is_able = sandbox.detect() is None
    return tuple(name for name in names if is_able or name not in PROGRAM_TOOLS)


@tool(effects=BUILTIN_EFFECTS["shell"])
async def shell(context: ToolContext, command: str, timeout: float | None = None) -> ToolResult:
    """Runs a shell command in the workspace, without a network. A long output goes into a file that is named.

    command: e.g. python3 -m unittest
    timeout: seconds after which it is ended, at most those of the settings
    """
    if timeout is not None and timeout <= 0:
        raise ToolError(f"timeout is {timeout:g} seconds: it must be more than 0")
    return _result(await _run(context, ["/bin/sh", "-c", command], {}, timeout))


@tool(effects=BUILTIN_EFFECTS["git"])
async def git(
    context: ToolContext,
    operation: Literal["status", "log", "diff", "branch", "add", "commit", "checkout", "pull", "push"],
    args: str = "",
) -> ToolResult:
    """Runs git in the workspace, without a network.

    args: what follows the operation, e.g. -m "first" for commit
    """
    try:
        words = shlex.split(args)
    except ValueError as error:
        return ToolResult(status="error", error=f"the args cannot be split into words: {error}")
    return _result(await _run(context, ["git", "--no-pager", operation, *words], _git_environment(context)))


def _git_environment(context: ToolContext) -> dict[str, str]:
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in IDENTITY.items()}
    # The workspace may belong to a user unknown in the sandbox; git must not search for a repository above it.
    trusted = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    beyond = {"GIT_CEILING_DIRECTORIES": str(context.workspace.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    return who | trusted | beyond | {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "GIT_PAGER": "cat"}


async def _run(
    context: ToolContext, argv: list[str], env: dict[str, str], seconds: float | None = None
) -> ProcessResult:
    """Run a program for at most `seconds` (None: as the settings say, which is the most)."""
    most = context.settings.timeout
    with contextlib.ExitStack() as stack:
        overflow = None
        if context.outputs is not None:
            overflow = stack.enter_context(OutputFile(context.outputs, context.settings.file_mib * 2**20))
        return await context.sandbox.run(
            argv,
            workspace=context.workspace,
            timeout=most if seconds is None else min(seconds, most),
            env=env,
            overflow=overflow,
        )


def _result(done: ProcessResult) -> ToolResult:
    return ToolResult(done.output, done.status, done.error, done.exit_code)
