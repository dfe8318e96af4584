"""The recorded cycle that is forked or replayed: its act, its experience, and the prompt of its decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from conch.actions import Registry
from conch.cycle.state.sent import SentPrompt, sent_prompts
from conch.errors import ConchError, UsageError
from conch.experience import ExperienceReader, removed_words
from conch.home import Home
from conch.minds import Prompt, Situation
from conch.snapshots import SNAPSHOTS, RecordedDecision, SnapshotShelf
from conch.tools import BUILTIN_TOOLS
from conch_schemas import ActionTaken, ExperienceRecorded

PromptSource = Literal["snapshot", "sent"]
"""`snapshot`: as it was kept with the workspace. `sent`: its text alone, as it was sent to a model."""


@dataclass(frozen=True)
class RecordedCycle:
    """A cycle as the store and the home have it."""

    agent: str
    cycle: int
    act: ActionTaken
    experience: ExperienceRecorded
    shelf: SnapshotShelf
    decision: RecordedDecision | None
    """None: it was not kept, or not any more."""

    @classmethod
    def find(cls, reader: ExperienceReader, home: Home, agent: str, cycle: int) -> Self:
        """The cycle of this number. Raises UsageError where it is not recorded."""
        experience, act = reader.cycles.get(agent, cycle), reader.cycles.act(agent, cycle)
        if experience is None or act is None:
            removed = removed_words(reader.retention.removals(agent), agent, cycle)
            missing = removed or f"there is no recorded cycle {cycle} of {agent}"
            raise UsageError(f"{missing}: conch cycle list shows the last ones")
        shelf = SnapshotShelf(home.agent_dir(agent) / SNAPSHOTS)
        return cls(agent, cycle, act, experience, shelf, shelf.find(cycle))

    def kept(self) -> RecordedDecision:
        """The decision with its workspace. Raises ConchError where it was not kept, and says what to set."""
        if self.decision is None:
            raise ConchError(
                f"the decision of cycle {self.cycle} of {self.agent} is not kept with its workspace: with "
                "forks.snapshots: always it is, of the newest forks.keep cycles"
            )
        if not self.decision.tree:
            raise ConchError(f"the workspace of cycle {self.cycle} was not kept: {self.decision.why_not} (forks.mib)")
        return self.decision


def recorded_prompt(found: RecordedCycle, home: Home) -> tuple[Prompt, PromptSource]:
    """The prompt of the cycle's decision, as it was kept; else its text, as it was sent to a model, with a state that
    has only its number and its tools. Raises ConchError where there is neither."""
    if found.decision is not None:
        return found.decision.prompt(), "snapshot"
    sent = next(
        (one for one in sent_prompts(home.agent_dir(found.agent), found.cycle) if one.purpose == "decide"), None
    )
    if sent is None:
        raise ConchError(
            f"the prompt of cycle {found.cycle} of {found.agent} is not kept: those of the last 200 cycles are, where "
            "the mind reads prompts; with forks.snapshots: always of every mind"
        )
    return _of_text(sent, found), "sent"


def _of_text(sent: SentPrompt, found: RecordedCycle) -> Prompt:
    registry = Registry(tool.spec for tool in BUILTIN_TOOLS if tool.spec.name in found.act.tools)
    needs = dict(found.act.needs)
    need = min(sorted(needs), key=needs.__getitem__) if needs else ""
    situation = Situation(
        found.agent, found.cycle, needs, needs, need, thought=found.act.thought, tools=tuple(registry.names)
    )
    return Prompt("decide", sent.system, sent.messages, situation, parts=sent.parts, registry=registry)
