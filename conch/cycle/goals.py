"""Runs the goals' own checks: before the first action, and after each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from conch.cycle.state.memory import ActiveGoal
from conch.log import get_logger
from conch.tasks import concurrently
from conch.tools import CheckResult, ToolContext, run_check
from conch_schemas import FileCheck, Goal, GoalCheck, GoalOutcome

log = get_logger(__name__)

CHECKS_AT_ONCE = 4
"""Concurrent checks at most: they may be test suites, and more of them only time each other out."""
SHOWN = 300
"""Most characters of a statement and of a detail in an action's check: all checks fit one event."""


HIDDEN = "the check is hidden"
"""What stands in the place of what a hidden check found."""
ROUNDING = 1e-9
"""By how much a rise may miss the least one and still be it: sums of binary fractions."""


def runs_program(goals: Iterable[ActiveGoal]) -> bool:
    """Whether a check of these goals runs a program, which may write to the workspace."""
    return any(not isinstance(active.goal.check, FileCheck) for active in goals)


def is_over(goal: Goal, now: datetime) -> bool:
    """Whether the goal's deadline has passed; one without a time zone is in UTC."""
    if goal.deadline is None:
        return False
    return (goal.deadline if goal.deadline.tzinfo is not None else goal.deadline.replace(tzinfo=UTC)) <= now


def reached_by_parts(goals: Iterable[ActiveGoal]) -> list[Goal]:
    """The goals of which a part was reached and none is active any more. An active part that the agent set itself, and
    no person accepted, does not keep a goal that pays from being reached."""
    listed = {active.goal.id: active for active in goals}
    wholes = {
        parent.goal.id
        for active in listed.values()
        if (parent := listed.get(active.goal.parent or "")) is not None and (active.pays or not parent.pays)
    }
    return [active.goal for active in listed.values() if active.children_reached and active.goal.id not in wholes]


def in_order(goals: Iterable[ActiveGoal]) -> tuple[Goal, ...]:
    """The goals by priority, the highest first; those of equal priority in the order in which they were set."""
    return tuple(sorted((active.goal for active in goals), key=lambda goal: -goal.priority))


class GoalBaseline:
    """The measure of each goal before an action of this process.

    What held already, or came about while the agent was not running, earns no reward. A check that cannot be run is
    tried again before the next action. A measure that rose by `rise` (0..1) above the best so far is partial progress;
    a smaller rise is neutral, the best stays as it was, and the check's detail names the rise and `rise`.
    """

    def __init__(self, rise: float, measured: Mapping[str, float] | None = None) -> None:
        """`measured`: measures that are known already, by goal."""
        self._rise = rise
        self._measured = dict(measured or {})
        """The last measure of each check."""
        self._failed: dict[str, str] = {}

    def new(self, goals: Iterable[ActiveGoal]) -> list[ActiveGoal]:
        """The goals that have no baseline. The measures of goals that are over are forgotten."""
        listed = {active.goal.id: active for active in goals}
        self._measured = {id: measure for id, measure in self._measured.items() if id in listed}
        return [active for id, active in listed.items() if id not in self._measured]

    async def measure(self, new: Sequence[ActiveGoal], context: ToolContext) -> list[tuple[ActiveGoal, CheckResult]]:
        """Measure the goals in `new`: returns those that now have a baseline, with the results of their checks."""
        results = await _measure(new, context)
        self._failed = {
            a.goal.id: _told(a, r.error, failed=True) for a, r in zip(new, results, strict=True) if r.error is not None
        }
        found = [(active, result) for active, result in zip(new, results, strict=True) if result.error is None]
        self._measured |= {active.goal.id: result.measure for active, result in found}
        return found

    async def after(self, goals: Iterable[ActiveGoal], context: ToolContext, *, touched: bool) -> tuple[GoalCheck, ...]:
        """Every goal's check after an action; where the workspace was not changed, the last measure stands.

        A goal whose deadline has passed is neutral.
        """
        listed, now = list(goals), datetime.now(UTC)
        over = {active.goal.id for active in listed if is_over(active.goal, now)}
        run = [
            active for active in listed if touched and active.goal.id in self._measured and active.goal.id not in over
        ]
        results = dict(zip((active.goal.id for active in run), await _measure(run, context), strict=True))
        checks = tuple(
            _said(active, "neutral", self._measured.get(active.goal.id, 0.0), "its deadline has passed")
            if active.goal.id in over
            else self._check(active, results.get(active.goal.id))
            for active in listed
        )
        self._measured |= {check.goal: check.measure for check in checks if check.outcome != "error"}
        return checks

    def _check(self, active: ActiveGoal, result: CheckResult | None) -> GoalCheck:
        best = active.best or 0.0
        if active.goal.id not in self._measured:
            why = self._failed.get(active.goal.id, "it was set meanwhile")
            return _said(active, "error", 0.0, f"it could not be checked before the act: {why}")
        if result is None:
            return _said(active, "neutral", self._measured[active.goal.id], "untouched")
        if result.error is not None:
            return _said(active, "error", 0.0, _told(active, result.error, failed=True))
        rose = result.measure > best and result.measure - best >= self._rise - ROUNDING
        outcome: GoalOutcome = "achieved" if result.achieved else "partial" if rose else "neutral"
        detail = _told(active, result.detail)
        if outcome == "neutral" and result.measure > best:
            small = f"rose by {result.measure - best:.3g}, and progress is a rise of {self._rise:g} or more"
            detail = f"{small}; {detail}" if detail else small
        return _said(active, outcome, result.measure, detail)


async def _measure(goals: Sequence[ActiveGoal], context: ToolContext) -> list[CheckResult]:
    async def one(active: ActiveGoal) -> CheckResult:
        return await run_check(active.goal.check, context.workspace, context.sandbox, context.settings.timeout)

    return await concurrently(one, goals, at_once=CHECKS_AT_ONCE)


def _told(active: ActiveGoal, words: str, *, failed: bool = False) -> str:
    """What a check found, in words, or why it `failed`; of a hidden check no more than that, as the mind reads what its
    acts left. The log then has the reason."""
    if not active.goal.hidden:
        return words
    if failed:
        log.warning("goal.hidden_check_not_run", goal=active.goal.id, error=words)
    return f"{HIDDEN} and could not be run" if failed else HIDDEN


def _said(active: ActiveGoal, outcome: GoalOutcome, measure: float, detail: str) -> GoalCheck:
    return GoalCheck(
        goal=active.goal.id,
        statement=active.goal.statement[:SHOWN],
        outcome=outcome,
        measure=measure,
        best=active.best or 0.0,
        failed_before=active.tried,
        accepted=active.pays,
        detail=detail[:SHOWN],
    )
