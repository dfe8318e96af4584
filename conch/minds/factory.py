"""Makes the minds that the settings name; libraries are imported for the kinds that need them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import SecretStr

from conch.config import MINDS, SERVED, ExplorationBonusSettings, MindSettings, OneMindSettings
from conch.errors import ConfigError
from conch.minds.protocol import Mind

if TYPE_CHECKING:
    from conch.minds.constraint.findings import ConstraintFindings
    from conch.minds.endpoint import ConnectionPool
    from conch.minds.scripted import ScriptLine


@dataclass(frozen=True)
class _Agent:
    """What the minds of one agent have in common, and those that are made."""

    seed: int
    memory: Path
    decided: int
    writes: bool
    commits: Callable[[], bool]
    made: list[tuple[OneMindSettings, Mind]] = field(default_factory=list)


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
        self._lines: dict[tuple[str, SecretStr | None], ConnectionPool] = {}
        """By address and key."""
        self._findings: ConstraintFindings | None = None
        self._script: tuple[ScriptLine, ...] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for line in self._lines.values():
            await line.close()

    def make(
        self,
        *,
        seed: int,
        memory: Path,
        decided: int = 0,
        writes: bool = True,
        commits: Callable[[], bool] = lambda: True,
        tell: Callable[[str], None] = lambda _: None,
    ) -> Mind:
        """The mind that the settings name. `memory` is the file in which the reflex mind keeps what it learnt;
        `decided`: so many replies of the script were used up before; `writes`: whether the reflex mind may change the
        workspace; `commits`: whether it may commit there, asked before its first decision; `tell` is called with a
        sentence when a fallback begins to reply, or the first mind replies again.

        Raises ConfigError for settings that cannot be used. Libraries are imported for the kinds that need them.
        """
        agent = _Agent(seed, memory, decided, writes, commits)
        blocks = self._settings.blocks()
        minds = {name: self._one(name, settings, agent) for name, settings in blocks.items()}
        fallbacks = [mind for name, mind in minds.items() if name.startswith("mind.fallbacks[")]
        [decides, *thinks] = [
            self._with_fallbacks(mind, fallbacks, tell) for mind in list(minds.values())[: len(minds) - len(fallbacks)]
        ]
        if not thinks:
            return decides
        from conch.minds.several import StepMinds

        return StepMinds(thinks[0], decides)

    def _with_fallbacks(self, mind: Mind, fallbacks: list[Mind], tell: Callable[[str], None]) -> Mind:
        if not (others := [one for one in fallbacks if one is not mind]):
            return mind
        from conch.minds.several import MindChain

        return MindChain([mind, *others], tell=tell)

    def _one(self, name: str, settings: OneMindSettings, agent: _Agent) -> Mind:
        """One mind; settings that are equal, and those of the reflex mind, give the same."""
        for other, mind in agent.made:
            if other == settings or other.kind == settings.kind == "reflex":
                return mind
        if settings.kind == "openai" or settings.kind in SERVED:
            mind = self._asking(name, settings, agent.seed)
        elif settings.kind == "scripted":
            mind = self._scripted(name, settings, agent.decided)
        elif settings.kind not in MINDS:
            mind = self._installed(name, settings, agent)
        else:
            mind = self._reflex(settings, agent)
        agent.made.append((settings, mind))
        return mind

    def _asking(self, name: str, settings: OneMindSettings, seed: int) -> Mind:
        from conch.minds.constraint.findings import ConstraintFindings
        from conch.minds.endpoint import ConnectionPool
        from conch.minds.openai import OpenAIMind

        line = self._lines.setdefault((settings.base_url, settings.api_key), ConnectionPool())
        self._findings = self._findings or ConstraintFindings(self._endpoints)
        return OpenAIMind(
            settings,
            seed=seed,
            line=line,
            first_word=self._first_word,
            section=name,
            findings=self._findings,
            adapters=settings == self._settings.deciding,
        )

    def _reflex(self, settings: OneMindSettings, agent: _Agent) -> Mind:
        # The matrices are small: threads that wait for each other would take ten times as long on a busy machine.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from conch.minds.reflex import ReflexMind

        explore: Literal["ucb", "random"] = "random" if settings.model == "random" else "ucb"
        return ReflexMind(
            agent.memory,
            seed=agent.seed,
            explore=explore,
            writes=agent.writes,
            commits=agent.commits,
            bonus=self._bonus,
            epsilon=settings.reflex.epsilon,
        )

    def _installed(self, name: str, settings: OneMindSettings, agent: _Agent) -> Mind:
        from conch.minds.installed import MindStart, make_installed

        return make_installed(MindStart(settings, name, agent.seed, agent.memory.with_name(f"mind-{settings.kind}")))

    def _scripted(self, name: str, settings: OneMindSettings, decided: int) -> Mind:
        from conch.minds.scripted import ScriptedMind, read_script

        if settings.script is None:
            raise ConfigError(f"the scripted mind needs a file of replies: --script FILE or {name}.script")
        path = Path(settings.script).expanduser()
        self._script = self._script if self._script is not None else read_script(path)
        return ScriptedMind(path, start_at=decided, lines=self._script)
