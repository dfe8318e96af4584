"""Makes the mind that the settings name; libraries are imported for the kind that needs them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from conch.config import ExplorationBonusSettings, MindSettings
from conch.errors import ConfigError
from conch.minds.protocol import Mind

if TYPE_CHECKING:
    from conch.minds.constraint.findings import ConstraintFindings
    from conch.minds.endpoint import ConnectionPool
    from conch.minds.scripted import ScriptLine


class MindFactory:
    """Makes the minds of a process; what they can share is made once. Entered as a context; left, it closes that."""

    def __init__(
        self,
        settings: MindSettings,
        first_word: float | None = None,
        bonus: ExplorationBonusSettings = ExplorationBonusSettings(),  # noqa: B008 - frozen
        endpoints: Path | None = None,
    ) -> None:
        """`first_word`: seconds in which the first reply of a mind at an endpoint must begin; None: `mind.timeout`.
        `bonus`: by which the reflex mind explores tools. `endpoints`: the directory that keeps which constraint an
        endpoint takes; None: that ends with the process."""
        self._settings, self._first_word, self._bonus = settings, first_word, bonus
        self._endpoints = endpoints
        self._line: ConnectionPool | None = None
        self._findings: ConstraintFindings | None = None
        self._script: tuple[ScriptLine, ...] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._line is not None:
            await self._line.close()

    def make(self, *, seed: int, memory: Path, decided: int = 0, writes: bool = True) -> Mind:
        """The mind that the settings name. `memory` is the file in which the reflex mind keeps what it learnt;
        `decided`: so many replies of the script were used up before; `writes`: whether the reflex mind may change the
        workspace.

        Raises ConfigError for settings that cannot be used. Libraries are imported for the kind that needs them.
        """
        settings = self._settings
        if settings.kind in ("openai", "local"):
            from conch.minds.constraint.findings import ConstraintFindings
            from conch.minds.endpoint import ConnectionPool
            from conch.minds.openai import OpenAIMind

            self._line = self._line or ConnectionPool()
            self._findings = self._findings or ConstraintFindings(self._endpoints)
            return OpenAIMind(
                settings, seed=seed, line=self._line, first_word=self._first_word, findings=self._findings
            )
        if settings.kind == "scripted":
            return self._scripted(decided)
        # The matrices are small: threads that wait for each other would take ten times as long on a busy machine.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from conch.minds.reflex import ReflexMind

        explore: Literal["ucb", "random"] = "random" if settings.model == "random" else "ucb"
        return ReflexMind(
            memory,
            seed=seed,
            explore=explore,
            writes=writes,
            bonus=self._bonus,
            epsilon=settings.reflex.epsilon,
        )

    def _scripted(self, decided: int) -> Mind:
        from conch.minds.scripted import ScriptedMind, read_script

        if self._settings.script is None:
            raise ConfigError("the scripted mind needs a file of replies: --script FILE or mind.script")
        path = Path(self._settings.script).expanduser()
        self._script = self._script if self._script is not None else read_script(path)
        return ScriptedMind(path, start_at=decided, lines=self._script)
