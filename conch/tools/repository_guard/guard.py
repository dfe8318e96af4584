"""Guards one program's run: afterwards no file that the program wrote can make git outside the sandbox run code."""

from __future__ import annotations

import asyncio
from pathlib import Path

from conch.errors import ToolError
from conch.tools.isolation.bubblewrap import INSIDE
from conch.tools.repository_guard.planted import find, repositories, set_aside
from conch.tools.repository_guard.repository import WorkspaceRepository, relink


class GitGuard:
    """A guard for one program: call `begin` before it starts, and `end` once it is dead, in every case."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace.resolve()
        self._opening: asyncio.Task[tuple[WorkspaceRepository, frozenset[bytes]]] | None = None

    async def begin(self) -> list[str]:
        """Options for bubblewrap: mounts over the workspace. Raises ToolError or OSError as
        `WorkspaceRepository.open`."""
        self._opening = asyncio.create_task(asyncio.to_thread(self._open))
        repository, _ = await asyncio.shield(self._opening)
        return repository.mounts(INSIDE)

    async def end(self) -> list[str]:
        """What was not kept, each in a few words; nothing where `begin` failed."""
        if self._opening is None:
            return []
        return await asyncio.shield(asyncio.create_task(self._end(self._opening)))

    def _open(self) -> tuple[WorkspaceRepository, frozenset[bytes]]:
        before = frozenset(one.digest for one in find(repositories(self._workspace)))
        return WorkspaceRepository.open(self._workspace), before

    async def _end(self, opening: asyncio.Task[tuple[WorkspaceRepository, frozenset[bytes]]]) -> list[str]:
        await asyncio.wait([opening])
        if opening.exception() is not None:
            return []
        return await asyncio.to_thread(self._settle, *opening.result())

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
