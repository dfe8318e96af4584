"""Adapter: a rule as a reward function of a verifiers rubric. verifiers is not needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from conch.errors import ContractError
from conch.integrations import act_of, asking, name_of, trajectory_of
from conch.rules import Rule, Trajectory, required, verdict
from conch_schemas import ActionTaken


def as_rubric_func(
    rule: Rule[Any], subject: type[ActionTaken] | type[Trajectory] = ActionTaken
) -> Callable[..., Awaitable[float]]:
    """`await f(prompt, completion, answer, state, info, **kwargs) -> float`, of one rollout.

    The columns of `conch.offline.act_of` are read from `info` and from the keyword arguments; a Trajectory has all of
    them, the answer and the rollout's state as facts. Raises ContractError (TimeoutError: out of time) where there is
    no score, also where the rule is not applicable: a rubric logs that and decides itself how to go on.
    """

    def make(rollout: tuple[Any, Any, dict[str, object], dict[str, object]]) -> ActionTaken | Trajectory:
        prompt, completion, columns, facts = rollout
        if subject is ActionTaken:
            return act_of(prompt, completion, columns)
        return trajectory_of(prompt, completion, columns | facts)

    ask = asking(rule, make)

    async def reward(
        prompt: Any,
        completion: Any,
        answer: Any = "",
        state: Any = None,
        info: Mapping[str, object] | None = None,
        **kwargs: Any,
    ) -> float:
        columns = {**kwargs, **(info or {})}
        rollout = (prompt, completion, columns, {"answer": answer, "state": state})
        value = required(await verdict(ask, rollout), name_of(rule))
        if value is None:
            raise ContractError(f"{name_of(rule)}: not applicable to this reply")
        return value

    reward.__name__ = reward.__qualname__ = name_of(rule)
    reward.__doc__ = rule.__doc__
    return reward
