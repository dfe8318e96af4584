"""A recorded cycle with its workspace, and forks of it with the replies that a test names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from conch.actions import Registry, ToolSpec
from conch.config import Settings
from conch.forks import Fork, ForkRequest, RecordedCycle, fork_minds
from conch.home import Home
from conch.minds import Prompt, Situation
from conch.snapshots import SNAPSHOTS, GoalThen, SnapshotKeeper, SnapshotShelf
from conch.testing import make_action_taken, make_experience_recorded
from conch.tools import BUILTIN_TOOLS
from conch.values import Values
from conch_schemas import Effect, ForkScored, GoalWork, MeasuredEffect, PromptMessage, ScoredPart

WEIGHTS = {"format": 0.30, "execution": 0.25, "needs": 0.20, "goal": 0.15, "exploration": 0.10}
CYCLE = 3


@dataclass
class Recorded:
    """A cycle of an agent in a home of its own, to be forked."""

    home: Home
    workspace: Path
    place: Path
    """A directory beside the home, for what is outside of it."""
    goals: tuple[GoalThen, ...] = ()
    message: tuple[str, str] | None = None
    tools: tuple[ToolSpec, ...] = tuple(tool.spec for tool in BUILTIN_TOOLS)
    settings: dict[str, Any] = field(default_factory=dict)
    values: Values = field(default_factory=Values)

    async def cycle(self, work: GoalWork | None = None) -> RecordedCycle:
        """Keep the decision with the workspace as it is now; `work`: what the act says of its goals."""
        folder = self.home.agent_dir("echo") / SNAPSHOTS
        settings = Settings.model_validate(self.settings)
        situation = Situation(
            *("echo", CYCLE, {"curiosity": 0.5}, {"curiosity": 1.0}, "curiosity"),
            files=("notes/a.md",),
            tools=tuple(spec.name for spec in self.tools),
        )
        said = PromptMessage(role="user", content="What now?")
        prompt = Prompt("decide", "You are echo.", (said,), situation, registry=Registry(self.tools))
        await SnapshotKeeper(folder, self.workspace, settings.forks).keep(prompt, self.goals, self.message)
        act = make_action_taken(CYCLE, effect=None if work is None else MeasuredEffect(work=work))
        parts = tuple(
            ScoredPart(
                component=name, value=0.1, weight=weight, status="scored", explanation="", scorer="reward", version="2"
            )
            for name, weight in WEIGHTS.items()
        )
        shelf = SnapshotShelf(folder)
        experience = make_experience_recorded(act, scores=parts, weights="w1")
        return RecordedCycle("echo", CYCLE, act, experience, shelf, shelf.find(CYCLE))

    async def fork(self, *replies: str, found: RecordedCycle | None = None, seed: int = 0) -> list[ForkScored]:
        """The candidates of these replies: one of each."""
        recorded = found or await self.cycle()
        settings = self.scripted(replies, seed)
        async with fork_minds(settings, self.home, "echo") as minds:
            seeds = tuple(range(seed, seed + len(replies)))
            fork = Fork(ForkRequest(recorded, seeds), minds, settings, self.values)
            return [candidate async for candidate in fork.candidates(fork.missing(()))]

    def scripted(self, replies: Sequence[str], seed: int = 0) -> Settings:
        """Settings of a mind that gives these replies."""
        script = self.place / "script.txt"
        script.write_text("\n".join([*["DO_NOTHING: never"] * seed, *replies]) + "\n")
        mind = {"kind": "scripted", "script": str(script)}
        return Settings.model_validate({"tools": {"timeout": 5}} | self.settings | {"mind": mind})

    def without(self, *tools: str) -> None:
        """Leave these tools out."""
        self.tools = tuple(spec for spec in self.tools if spec.name not in tools)

    def declares(self, name: str, effects: Effect) -> None:
        """Give the mind a tool more, with one text as its argument."""
        spec = next(tool.spec for tool in BUILTIN_TOOLS if tool.spec.name == "reply")
        self.tools = (*self.tools, replace(spec, name=name, effects=effects))


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    workspace = tmp_path / "outside" / "workspace"
    (workspace / "notes").mkdir(parents=True)
    (workspace / "notes" / "a.md").write_text("first\nsecond\n")
    home = Home.at(tmp_path / "home")
    home.make()
    return Recorded(home, workspace, tmp_path)
