"""Adapter from a rule to a reward function of TRL's trainers (GRPO and those with its interface); needs no TRL."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeGuard

from conch.errors import ContractError
from conch.integrations import act_of, asking, name_of, trajectory_of
from conch.log import get_logger
from conch.rules import (
    Batch,
    Rule,
    Trajectory,
    WeightedRewardConfig,
    rule_of,
    score_batch,
)
from conch_schemas import ActionTaken

log = get_logger(__name__)

RewardFunc = Callable[..., list[float | None]]
_BY_ITSELF = WeightedRewardConfig({"rule": 1.0})
_NO_COLUMNS = frozenset({"prompts", "completions", "completion_ids"})


def as_reward_func(rule: Rule[Any], subject: type[ActionTaken] | type[Trajectory] = ActionTaken) -> RewardFunc:
    """`f(prompts, completions, **columns) -> list[float | None]`, one value for each completion, in their order.

    Prompts and completions are texts or lists of messages. `rule` gets each reply as an act (`conch.offline.act_of`
    says which columns set its fields, `outcome` and `tools` above all), or with `subject=Trajectory` as a conversation
    with the columns as its facts. A column is a list as long as the completions; the trainer's other arguments (its
    state, its loggers) are ignored.

    A value is None where there is no score: the rule says not applicable, raises, returns something that is not a
    finite number or lies outside its declared range, or exceeds its declared time; TRL counts None as missing, never as
    0. Failures are logged once per batch. Async rules run concurrently on an event loop that lasts as long as `f`, in a
    thread of its own, so `f` may be called from any thread. Raises ContractError for a held-out rule: it must not be
    used for training.
    """
    declared = rule_of(rule)
    if declared is not None and declared.info.held_out:
        raise ContractError(f"rule {declared.name} is held out: it is there to be compared with what is trained on")
    name, ask = name_of(rule), asking(rule, _act if subject is ActionTaken else _trajectory)
    thread = ThreadPoolExecutor(1, thread_name_prefix="conch-trl")
    runner = asyncio.Runner()

    def reward(prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> list[float | None]:
        rows = _rows(prompts, completions, given)
        batch = thread.submit(runner.run, score_batch(rows, {"rule": ask}, _BY_ITSELF)).result()
        _report_failures(name, batch)
        return list(batch.rewards)

    reward.__name__ = reward.__qualname__ = name
    reward.__doc__ = rule.__doc__
    weakref.finalize(reward, _close, thread, runner).atexit = False  # at the exit the thread has ended before
    return reward


_Row = tuple[Any, Any, Mapping[str, object], Sequence[int]]
"""Prompt, completion, columns, tokens of the completion."""


def _act(row: _Row) -> ActionTaken:
    return act_of(*row[:3])


def _trajectory(row: _Row) -> Trajectory:
    return trajectory_of(*row)


def _rows(prompts: Sequence[Any], completions: Sequence[Any], given: Mapping[str, object]) -> list[_Row]:
    count = len(completions)
    columns = {name: value for name, value in given.items() if name not in _NO_COLUMNS and _is_column(value, count)}
    ids = given.get("completion_ids")
    tokens = [(len(one),) for one in ids] if ids is not None and _is_column(ids, count) else [()] * count
    return [
        (prompt, completion, {name: column[place] for name, column in columns.items()}, tokens[place])
        for place, (prompt, completion) in enumerate(zip(prompts, completions, strict=True))
    ]


def _is_column(value: object, count: int) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple) and len(value) == count


def _report_failures(rule: str, batch: Batch) -> None:
    failed = [parts["rule"] for parts in batch.parts if parts["rule"].status in ("error", "timeout")]
    if failed:
        log.warning(
            "reward.rule_failed", rule=rule, replies=len(failed), of=len(batch.parts), error=failed[0].explanation
        )


def _close(thread: ThreadPoolExecutor, runner: asyncio.Runner) -> None:
    thread.submit(runner.close)
    thread.shutdown(wait=False)
