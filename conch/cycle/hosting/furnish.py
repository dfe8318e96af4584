"""Makes the workspaces of agents, filled with a sample where that is due, and knows which of them are Conch's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from conch.errors import HomeError
from conch.home import Home
from conch.tasks import OwnedTasks
from conch.workspace import (
    MaterialScript,
    WorkspaceTemplate,
    is_made,
    record_filled,
    record_made,
    sample_for_agents,
    script_of,
)


class WorkspaceFurnishing:
    """The workspaces of agents of one home: a directory each in `base`, or `base` itself of an agent that is `alone`.

    `tasks` owns the reading of the sample into memory, which happens once for all agents.
    """

    def __init__(self, home: Home, base: Path, tasks: OwnedTasks, alone: bool) -> None:
        """Raises HomeError for a record of the home that cannot be read."""
        self._home, self._alone, self._tasks = home, alone, tasks
        self._sample = None if alone else sample_for_agents(home, base)
        self._copies: asyncio.Task[WorkspaceTemplate | None] | None = None

    def is_ours(self, workspace: Path) -> bool:
        """Whether Conch has made the workspace, or will: one of several agents that is missing, or empty and to be
        filled."""
        is_missing = not workspace.exists()
        is_filled_later = is_missing or (self._sample is not None and not any(workspace.iterdir()))
        if not self._alone and is_filled_later:
            return True
        return is_made(self._home, workspace)

    def script(self, name: str, workspace: Path) -> MaterialScript | None:
        """What an agent's workspace is brought; None: nothing. Raises HomeError."""
        return script_of(self._home.path, self._record(name), workspace)

    def is_sample(self, name: str, workspace: Path) -> bool:
        """Whether an agent's workspace is a sample project."""
        try:
            return self.script(name, workspace) is not None
        except HomeError:
            return False

    async def furnish(self, name: str, workspace: Path) -> None:
        """Make an agent's workspace where it does not exist yet, fill it where that is due, and record that. Raises
        HomeError."""
        try:
            copies = await asyncio.shield(self._read())
            await asyncio.to_thread(self._fill, copies, name, workspace)
        except OSError as error:
            raise HomeError(
                f"the workspace {workspace} cannot be filled ({error.strerror}): make room, or mend its permissions"
            ) from error

    def _record(self, name: str) -> Path:
        """The directory of the record that an agent's workspace was filled."""
        return self._home.path if self._alone else self._home.agent_dir(name)

    def _fill(self, copies: WorkspaceTemplate | None, name: str, workspace: Path) -> None:
        if workspace.exists() and (copies is None or any(workspace.iterdir())):
            return
        if self._sample is not None:
            record_filled(self._home.path, self._record(name), workspace, self._sample)
        if copies is None:
            workspace.mkdir(parents=True, exist_ok=True)
        elif not copies.into(workspace):
            return
        record_made(self._home, workspace)

    def _read(self) -> asyncio.Task[WorkspaceTemplate | None]:
        """The reading of the sample; its result is None where no workspace is filled."""
        if self._copies is None:
            self._copies = self._tasks.start(asyncio.to_thread(self._template), name="conch.agents.template")
        return self._copies

    def _template(self) -> WorkspaceTemplate | None:
        return None if self._sample is None else WorkspaceTemplate.make(self._sample)
