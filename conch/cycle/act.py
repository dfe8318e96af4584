"""The act step: runs the decided action, then the checks of all goals."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from conch.actions import effect_of
from conch.cycle.effects.meter import EffectMeter
from conch.cycle.goals import GoalBaseline, runs_program
from conch.cycle.state.effects import touched
from conch.cycle.state.memory import ActiveGoal, AgentMemory
from conch.text import cut
from conch.tools import Toolbox, ToolContext
from conch.witness import context_digests
from conch_schemas import Action, Cost, GoalCheck, Outcome, OutcomeStatus, Usage

THOUGHT_SHOWN = 2000
"""Most characters of the thought in `action.taken`."""
READING_SKILLS = {"filesystem.read", "filesystem.list", "filesystem.exists", "filesystem.info", "notes.recall"}
"""Calls of built-in tools that take about a millisecond inside this process."""


@dataclass(frozen=True)
class ActionResult:
    """Outcome of an action and the goal checks after it."""

    outcome: Outcome
    goals: tuple[GoalCheck, ...] = ()
    ms: float = 0.0


def runs(action: Action, guard: str | None) -> bool:
    """Whether the action calls a tool that may run."""
    return guard is None and action.valid and action.kind == "TOOL"


def only_reads(action: Action) -> bool:
    """Whether the action runs a tool that starts no program and changes no file: no goal is checked after it."""
    return action.skill in READING_SKILLS and effect_of(action) == "read"


async def act(
    action: Action,
    guard: str | None,
    *,
    toolbox: Toolbox,
    context: ToolContext,
    goals: Iterable[ActiveGoal],
    baseline: GoalBaseline,
    meter: EffectMeter | None = None,
) -> ActionResult:
    """Run `action` once and check the goals. Every tool failure becomes an outcome. Cancelled, the tool is killed.

    `meter` looks at the workspace around the tool's run, before the goals' checks can write to it.
    """
    began, before = time.perf_counter(), tuple(goals)
    if guard is not None:
        outcome = _nothing("blocked", guard)
    elif runs(action, guard):
        outcome = await _run(action, toolbox, context, meter)
    else:
        outcome = _nothing("none")
    may_differ = touched(action, outcome.status)
    checks = await baseline.after(before, context, touched=may_differ)
    if meter is not None and may_differ and runs_program(before):
        await meter.settle()
    return ActionResult(outcome, checks, (time.perf_counter() - began) * 1000)


async def _run(action: Action, toolbox: Toolbox, context: ToolContext, meter: EffectMeter | None) -> Outcome:
    if meter is None:
        return await toolbox.run(action, context)
    await meter.begin(action)
    outcome = await toolbox.run(action, context)
    await meter.end()
    return outcome


def cut_short(action: Action, guard: str | None) -> ActionResult:
    """The result for an intent without an outcome after a crash: it is not known whether the tool ran."""
    if guard is not None:
        return ActionResult(_nothing("blocked", guard))
    if runs(action, guard):
        return ActionResult(_nothing("unknown", "the agent was stopped between the intent and its outcome"))
    return ActionResult(_nothing("none"))


def taken(
    memory: AgentMemory, result: ActionResult, needs: dict[str, float], tools: tuple[str, ...]
) -> dict[str, object]:
    """The data of `action.taken`: the open cycle's thought and decision, and the action's result. Pure."""
    thought, decided, grounded = memory.thought, memory.decided, memory.grounded
    assert thought is not None
    assert decided is not None
    ground_ms = grounded.ms if grounded is not None else 0.0
    return {
        "action": decided.action,
        "raw": decided.raw,
        "raw_length": decided.raw_length,
        "raw_sha256": decided.raw_sha256,
        "outcome": result.outcome,
        "goals": result.goals,
        "needs": needs,
        "thought": thought.thought.text[:THOUGHT_SHOWN],
        "memory": grounded.memory if grounded is not None else (),
        "tools": tools,
        "constrained": decided.constrained,
        "model": decided.model,
        "decoding": decided.decoding,
        "usage": _sum(thought.usage, decided.usage),
        "cost": _total(thought.cost, decided.cost),
        "ms": {"think": thought.ms, "ground": ground_ms, "decide": decided.ms, "act": result.ms},
        "context_sha256": context_digests(
            thought.thought.text, None if grounded is None else grounded.claims, decided.messages
        ),
    }


def _nothing(status: OutcomeStatus, error: str | None = None) -> Outcome:
    return Outcome(status=status, output=cut(""), error=error)


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens, output_tokens=one.output_tokens + other.output_tokens
    )


def _total(one: Cost | None, other: Cost | None) -> Cost | None:
    """Both together; None where one is unknown, or the currency was changed between."""
    if one is None or other is None or one.currency != other.currency:
        return None
    return Cost(amount=one.amount + other.amount, currency=one.currency)
