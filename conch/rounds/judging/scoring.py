"""The scores of a tried candidate beside those that follow from its act alone: rules of files and packages, judges.

A fork scores *format*, *execution* and *goal*. What else is paid or held out is asked for here, as far as it goes by
one act: rules without a state or a window, and judges. A score that cannot be made is missing, never 0.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import fsum

from conch.config import Settings
from conch.consumer.plugins import RuleWorker, discover, reserved, rules_of
from conch.forks import RecordedCycle
from conch.home import Home
from conch.judge import Judge, judging
from conch.rules import RuleInfo
from conch_schemas import ActionTaken, ForkScored, PromptMessage, Score

ScoreAct = Callable[[ActionTaken, Sequence[PromptMessage]], Awaitable[Score]]


@dataclass(frozen=True)
class CandidateScore:
    """What the rules and judges say of a candidate."""

    paid: float = 0.0
    """Sum of weight × value of those that are paid, beside those of the fork."""
    held_out: float | None = None
    """Mean value of those that are held out; None: there is none, or none applies."""
    missing: str = ""
    """The component whose score could not be made; empty: all could."""


@dataclass(frozen=True)
class CandidateScorer:
    """Asks the rules and judges of a run. Made by `candidate_scorer`."""

    paid: dict[str, ScoreAct]
    held_out: dict[str, ScoreAct]

    async def score(self, recorded: RecordedCycle, candidate: ForkScored) -> CandidateScore:
        """The scores of a candidate, as if it had been the act of its cycle."""
        act, prompt = act_of(recorded, candidate), _prompt(recorded)
        weights = {one.component: one.weight for one in recorded.experience.scores if one.weight}
        sums, held, missing = [], [], ""
        for component, ask in self.paid.items():
            if component in weights:
                said = await ask(act, prompt)
                missing = missing or (component if said.status in ("error", "timeout") else "")
                sums.append(weights[component] * (said.value or 0.0))
        for component, ask in self.held_out.items():
            said = await ask(act, prompt)
            missing = missing or (component if said.status in ("error", "timeout") else "")
            held += [] if said.value is None else [said.value]
        return CandidateScore(fsum(sums), fsum(held) / len(held) if held else None, missing)


@asynccontextmanager
async def candidate_scorer(
    settings: Settings, home: Home, rules: Sequence[RuleInfo] | None = None
) -> AsyncIterator[CandidateScorer]:
    """These rules, else those of the run in progress, else those of installed packages, and the judges of the settings;
    their processes and connections are closed at the end. Raises ConfigError."""
    if rules is None:
        run = home.running()
        rules = discover((), reserved(settings)).rules if run is None else rules_of(run.rules)
    paid, held_out = dict[str, ScoreAct](), dict[str, ScoreAct]()
    async with AsyncExitStack() as stack:
        for rule in rules:
            if not judges_one_act(rule):
                continue
            worker = _worker(rule, settings)
            stack.push_async_callback(worker.close)
            (held_out if rule.held_out else paid)[rule.name] = _by_rule(worker)
        for name, judge in settings.rewards.judges.items():
            opened = await stack.enter_async_context(judging(name, settings, home.path))
            (held_out if judge.held_out else paid)[name] = _by_judge(opened)
        yield CandidateScorer(paid, held_out)


def judges_one_act(rule: RuleInfo) -> bool:
    """Whether a rule scores an act by itself, so that a tried candidate can be scored by it."""
    return not rule.stateful and rule.window is None


def act_of(recorded: RecordedCycle, candidate: ForkScored) -> ActionTaken:
    """The act of the cycle with the candidate's reply and what it brought about."""
    return recorded.act.model_copy(
        update={
            "action": candidate.action,
            "raw": candidate.raw,
            "raw_length": candidate.raw_length,
            "raw_sha256": candidate.raw_sha256,
            "outcome": candidate.outcome,
            "goals": candidate.goals,
            "effect": candidate.effect,
            "constrained": candidate.constrained,
            "decoding": candidate.decoding,
            "message": None,
        }
    )


def _worker(rule: RuleInfo, settings: Settings) -> RuleWorker:
    return RuleWorker(rule, timeout=settings.rewards.rule_timeout, memory_mib=settings.rewards.rule_memory_mib)


def _by_rule(worker: RuleWorker) -> ScoreAct:
    async def score(act: ActionTaken, _: Sequence[PromptMessage]) -> Score:
        return await worker.score(act)

    return score


def _by_judge(judge: Judge) -> ScoreAct:
    async def score(act: ActionTaken, prompt: Sequence[PromptMessage]) -> Score:
        return await judge.judge_act(act, prompt)

    return score


def _prompt(recorded: RecordedCycle) -> tuple[PromptMessage, ...]:
    decision = recorded.decision
    if decision is None:
        return ()
    return (PromptMessage(role="system", content=decision.system), *decision.messages)
