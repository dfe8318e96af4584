"""Guards one program's run: afterwards no file that the program wrote can make git outside the sandbox run code."""

from __future__ import annotations

import asyncio
from pathlib import Path

from conch.errors import ToolError
from conch.tasks import uninterrupted
from conch.tools.isolation.bubblewrap import INSIDE
from conch.tools.repository_guard.planted import find, repositories, set_aside
from conch.tools.repository_guard.repository import WorkspaceRepository, relink


class GitGuard:
    """A guard for one program: call `begin` before it starts, and `end` once it is dead, in every case."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace.resolve()
        self._opened: tuple[WorkspaceRepository, frozenset[bytes]] | None = None

    async def begin(self) -> list[str]:
        """Options for bubblewrap: mounts over the workspace. Raises ToolError or OSError as
        `WorkspaceRepository.open`. Cancelled, it waits for what it has begun, so that `end` can undo it."""
        await uninterrupted(asyncio.to_thread(self._open), name="conch.tool.guard.begin")
        assert self._opened is not None
        return self._opened[0].mounts(INSIDE)

    async def end(self) -> list[str]:
        """What was not kept, each in a few words; nothing where `begin` failed. Cancelled, it does its work first."""
        if self._opened is None:
            return []
        return await uninterrupted(asyncio.to_thread(self._settle, *self._opened), name="conch.tool.guard.end")

    def _open(self) -> None:
        before = frozenset(one.digest for one in find(repositories(self._workspace)))
        self._opened = WorkspaceRepository.open(self._workspace), before

    def _settle(self, repository: WorkspaceRepository, before: frozenset[bytes]) -> list[str]:
        try:
            refused = repository.keep()
        except (ToolError, OSError) as error:
            refused = [f".git ({error})"]
        finally:
            repository.close()
        nested = repositories(self._workspace)
        for _, repository_ in nested:
            relink(self._workspace, repository_)
        return refused + set_aside(nested, before)
