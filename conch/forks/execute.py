"""Executes a candidate in a copy of the workspace: what may be executed there, and what it brought about."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from conch.actions import Registry, effect_of
from conch.config import Masker, Settings
from conch.cycle.act import runs
from conch.cycle.effects.commands import program_tested, same_command
from conch.cycle.effects.sources import output_source
from conch.cycle.goals import GoalBaseline, runs_program
from conch.cycle.state.effects import touched
from conch.cycle.state.memory import ActiveGoal
from conch.forks.changes import CopyChange, CopyChanges
from conch.snapshots import RecordedDecision, SnapshotShelf, TooLargeError
from conch.text import cut
from conch.tools import BUILTIN_TOOLS, PROGRAM_TOOLS, Notes, Sandbox, Toolbox, ToolContext, ToolPolicy
from conch.values import Values
from conch_schemas import (
    Action,
    ActionTaken,
    ChangedLines,
    CommandCheck,
    GoalCheck,
    GoalWork,
    MeasuredEffect,
    Outcome,
    OutcomeStatus,
    TestsCheck,
)

CONFINED: Final = frozenset({"filesystem", "notes", "reply"})
"""Tools that work inside this process, on the copy, on notes beside it, and on nothing."""
SHOWN_PATHS: Final = 100
_KNOWN_THEN = "Whether it brought new lines depends on what the agent knew then."
_CHECKED_THEN = "Whether the workspace had changed since this check ran last depends on the agent's history."
_NO_SANDBOX = "tools.sandbox is off, so a program could change what is outside of the copy"


@dataclass(frozen=True)
class Tried:
    """A candidate after it was executed, or not."""

    outcome: Outcome
    executed: bool = False
    why_not: str = ""
    """Why a valid call was not executed; empty where it was, or is no call."""
    goals: tuple[GoalCheck, ...] = ()
    effect: MeasuredEffect | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    """By component: why it cannot be told of this candidate."""
    ms: float = 0.0


class CandidateRunner:
    """Executes candidates for one decision, each in a copy of its own, by the settings, the values and the policy of
    now."""

    def __init__(self, settings: Settings, values: Values, decision: RecordedDecision, shelf: SnapshotShelf) -> None:
        self._settings, self._values, self._decision = settings, values, decision
        self._changes = CopyChanges(shelf, decision.tree)
        self._toolbox = Toolbox(BUILTIN_TOOLS, Masker.of(settings))
        self._sandbox = Sandbox(settings.tools)
        self._goals = [
            ActiveGoal(
                goal=then.goal.model_copy(update={"deadline": None}),  # it was active, whatever the time is now
                best=then.best,
                measure=then.measure,
                tried=then.tried,
            )
            for then in decision.goals
        ]

    async def run(self, action: Action, copy: Path) -> Tried:
        """Execute a candidate in `copy`, then check the goals there. Cancelled, its programs are ended first."""
        guard = self._blocked(action, copy)
        if not runs(action, guard):
            status: OutcomeStatus = "none" if guard is None else "blocked"
            return Tried(_nothing(status, guard), goals=await self._checked(action, status, copy))
        if (why := self.refusal(action, copy)) is not None:
            outcome = _nothing("blocked", f"not executed in a fork: {why}")
            return Tried(outcome, why_not=why, unknown=dict.fromkeys(("execution", "goal"), f"Not executed: {why}."))
        began = time.perf_counter()
        await asyncio.to_thread(self._changes.begin, copy)
        with Notes(":memory:") as notes:  # what the agent had noted then is not kept
            context = ToolContext(copy, self._sandbox, notes, self._settings.tools, self._decision.message)
            outcome = await self._toolbox.run(action, context)
        try:
            change = await asyncio.to_thread(self._changes.end, copy)
        except (OSError, TooLargeError) as error:
            outcome = outcome.model_copy(update={"status": "error", "error": f"the copy cannot be looked at: {error}"})
            change = CopyChange((), ChangedLines())
        goals = await self._checked(action, outcome.status, copy)
        effect = _effect(action, outcome, change, goals)
        unknown: dict[str, str] = {}
        if self._runs_check(action):
            effect, unknown["execution"] = None, _CHECKED_THEN
        elif effect is None and outcome.status == "success":
            unknown["execution"] = _KNOWN_THEN
        if self._unchecked():
            unknown["goal"] = f"A check of a goal was not run: {_NO_SANDBOX}."
        ms = (time.perf_counter() - began) * 1000
        return Tried(outcome, True, goals=goals, effect=effect, unknown=unknown, ms=ms)

    def refusal(self, action: Action, copy: Path) -> str | None:
        """Why a valid call is not executed in a fork; None: it is."""
        if ToolPolicy(self._settings.tools.policy, copy).ruling(action).do == "ask":
            return "tools.policy asks a person for an approval of it"
        if effect_of(action) not in ("read", "workspace"):
            return f"{action.skill} may change what is outside of the workspace, which nothing takes back"
        if action.tool in PROGRAM_TOOLS:  # in a fork only where the sandbox confines them
            return _NO_SANDBOX if self._settings.tools.sandbox == "off" else self._sandbox.detect()
        return None if action.tool in CONFINED else f"{action.tool} is no built-in tool, and works outside of the copy"

    def _blocked(self, action: Action, copy: Path) -> str | None:
        """Why the act would have been blocked; None: it would not."""
        ruling = ToolPolicy(self._settings.tools.policy, copy).ruling(action)
        return self._values.guard(action) or (ruling.why if ruling.do == "deny" else None)

    async def _checked(self, action: Action, status: OutcomeStatus, copy: Path) -> tuple[GoalCheck, ...]:
        if self._unchecked() or not self._goals:
            return ()
        measured = {one.goal.id: one.measure for one in self._goals if one.measure is not None}
        baseline = GoalBaseline(self._settings.effects.goal_rise, measured)
        with Notes(":memory:") as notes:
            context = ToolContext(copy, self._sandbox, notes, self._settings.tools)
            return await baseline.after(self._goals, context, touched=touched(action, status))

    def _unchecked(self) -> bool:
        """Whether a goal has a check that is not run in a fork."""
        return self._settings.tools.sandbox == "off" and runs_program(self._goals)

    def _runs_check(self, action: Action) -> bool:
        """Whether a command is a goal's check, or runs a test program: its score rests on when that ran last."""
        command = action.args.get("command") if action.tool == "shell" else None
        if not isinstance(command, str):
            return False
        own = (one.goal.check.command for one in self._goals if isinstance(one.goal.check, CommandCheck | TestsCheck))
        return any(same_command(one, command) for one in own) or (
            program_tested(command, self._settings.rewards.test_programs) is not None
        )


def recorded_registry(decision: RecordedDecision) -> Registry:
    """The tools that the mind could call then."""
    return Registry(decision.tools)


def standing(tried: Tried, act: ActionTaken) -> Tried:
    """The candidate as it stood to the goals that were open for the act, where that was counted: so that both are paid
    by the same rules. What a file was added to before is not kept, so no candidate is idle for that."""
    work = act.effect.work if act.effect is not None else None
    if work is None or "execution" in tried.unknown:
        return tried
    counted = GoalWork(open=work.open, allowance=work.allowance)
    return replace(tried, effect=(tried.effect or MeasuredEffect()).model_copy(update={"work": counted}))


def _effect(
    action: Action, outcome: Outcome, change: CopyChange, goals: tuple[GoalCheck, ...]
) -> MeasuredEffect | None:
    """What is certain of the effect; None: it failed, or it may have brought lines that were new to the agent."""
    if outcome.status != "success":
        return None
    measured = MeasuredEffect(paths=change.paths[:SHOWN_PATHS], lines=change.lines)
    if outcome.answered is not None:
        return measured.model_copy(update={"kind": "answer"})
    if any(check.outcome in ("achieved", "partial") for check in goals):
        return measured.model_copy(update={"kind": "progress"})
    if change.lines.new:
        return measured.model_copy(update={"kind": "change"})
    shows_nothing = output_source(action) == "words" or not outcome.output.text.strip()
    return measured if shows_nothing else None


def _nothing(status: OutcomeStatus, error: str | None) -> Outcome:
    return Outcome(status=status, output=cut(""), error=error)
