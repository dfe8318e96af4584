"""`score`: score an act with a rule in this process, with the results that the rule's process gives in a run."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel

from conch.config import Settings
from conch.consumer import spec_of
from conch.consumer.plugins import (
    ANSWERED,
    OwnRuleState,
    RuleWindow,
    RuleWorker,
    after_act,
    answer_of,
    at_first,
)
from conch.errors import ContractError
from conch.processes import RuleAnswer, RuleAnswered, RuleFailed, RuleInput, error_words
from conch.rules import DeclaredRule, RuleInfo
from conch_schemas import ActionTaken, Score

LIMITS = Settings().rewards
"""The default time and memory of a rule."""


def score(rule: Callable[..., Any], action: ActionTaken, history: Sequence[ActionTaken] = ()) -> Score:
    """The score that `rule` gives `action` in a run, also when the rule raises, hangs or returns nonsense.

    `rule`: a function that `@rule` declares. `history`: the agent's acts before, oldest first: a rule with a state has
    seen them, a rule with a window is given the last of them, shortened as in a run. Longer than the rule's `timeout`
    (default 2 s) for one act is a score of status timeout; its thread is left behind. Only the limit on memory and the
    process of its own are a run's alone. Works in a test that is async as well, and waits for the rule there.

    Raises ContractError for a function that is no rule.

    ```python
    import conch
    from conch.testing import make_action_taken, score


    @conch.rule(weight=0.1, window=3)
    def variety(actions) -> float | None:
        return len({action.raw for action in actions}) / len(actions)


    acts = [make_action_taken(cycle, raw=raw) for cycle, raw in enumerate(["a", "a", "b"])]
    assert score(variety, acts[0]).value == 1.0
    assert score(variety, acts[2], history=acts[:2]).value == 2 / 3
    ```
    """
    declared = spec_of(rule)
    if not isinstance(declared, DeclaredRule):
        raise ContractError(f"{getattr(rule, '__name__', repr(rule)[:80])} is no rule: declare it with @rule(...)")
    seconds = declared.info.timeout or LIMITS.rule_timeout
    worker = RuleWorker(declared.info, timeout=seconds, memory_mib=LIMITS.rule_memory_mib)
    carried = at_first(declared.info)
    found = worker.late()
    for act in (*history, action):
        answer = _answer(declared, carried, act, seconds)
        found = worker.late() if answer is None else worker.judge(answer)
        carried = _after(declared.info, carried, act, answer, found)
    return found


def _answer(rule: DeclaredRule, carried: BaseModel | None, action: ActionTaken, seconds: float) -> RuleAnswer | None:
    """The rule's answer, computed in a thread with an event loop of its own; None: not in time."""
    given = RuleInput(
        state=carried.text if isinstance(carried, OwnRuleState) else None,
        acts=carried.acts if isinstance(carried, RuleWindow) else (),
    )
    answers: queue.SimpleQueue[RuleAnswer] = queue.SimpleQueue()

    def ask() -> None:
        loop = asyncio.new_event_loop()
        try:
            answers.put(answer_of(rule, loop, given, action))
        except BaseException as error:
            answers.put(RuleFailed(id=action.id, error=error_words(error, None)))
        finally:
            loop.close()

    threading.Thread(target=ask, name=f"conch.{rule.info.name}", daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        return None


def _after(
    rule: RuleInfo, carried: BaseModel | None, action: ActionTaken, answer: RuleAnswer | None, found: Score
) -> BaseModel | None:
    """The rule's state after an act: its own where it answered, the acts of its window however they scored."""
    if isinstance(carried, RuleWindow) and rule.window is not None:
        return after_act(carried.acts, action, rule.window)
    if found.status in ANSWERED and isinstance(answer, RuleAnswered) and answer.state is not None:
        return OwnRuleState(text=answer.state)
    return carried
