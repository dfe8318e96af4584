"""The vectors' ops, each a function of a vector's input that calls the product's own rule and lets refusals raise.

Importable alone; `tests/data/vectors.json` holds the vectors and the tool table of `parse_action`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from conch import curiosity, needs, rewards
from conch.actions import Argument, Registry, ToolSpec, parse
from conch.config import BUILTIN_WEIGHTS

VECTORS = Path(__file__).parent / "data" / "vectors.json"


@cache
def _registry() -> Registry:
    tools = json.loads(VECTORS.read_text(encoding="utf-8"))["tools"]
    return Registry(_tool(name, table) for name, table in tools.items())


def _tool(name: str, table: Mapping[str, Any]) -> ToolSpec:
    types = table.get("types", {})
    return ToolSpec(
        name,
        "",
        tuple(
            Argument(
                argument,
                type=types.get(argument, "string"),
                required=argument in table["required"],
                choices=tuple(table.get("operations", ())) if argument == "operation" else (),
            )
            for argument in (*table["required"], *table["optional"])
        ),
    )


def _parse_action(given: dict[str, Any]) -> dict[str, Any]:
    action = parse(given["text"], _registry())
    return {
        "action_type": action.kind,
        "tool": action.tool,
        "args": action.args,
        "is_valid": action.valid,
        "text": action.text,
    }


def _satisfaction(given: dict[str, Any], side: str) -> dict[str, float | None]:
    levels: dict[str, float | None] = given.get(side) or {}
    if given.get("level_means", "satisfaction") == "urgency":
        return {need: None if level is None else 1.0 - level for need, level in levels.items()}
    return levels


def _needs_reward(rule: Callable[..., float]) -> Callable[[dict[str, Any]], float]:
    return lambda given: rule(
        _satisfaction(given, "before"),
        _satisfaction(given, "after"),
        given.get("weights") or {},
        given.get("missing_weight", 1.0),
    )


def _total_reward(given: dict[str, Any]) -> float:
    weights = given.get("weights")
    return rewards.total_reward(given["components"], BUILTIN_WEIGHTS if weights is None else weights)


OPS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "parse_action": _parse_action,
    "format_reward": lambda given: rewards.format_reward(given["is_valid"]),
    "execution_reward": lambda given: rewards.execution_reward(
        given["action_type"], given["is_valid"], bool(given.get("success"))
    ),
    "needs_reward_counted": _needs_reward(needs.counted_reward),
    "needs_reward_delta_sum": _needs_reward(needs.delta_reward),
    "goal_outcome_reward": lambda given: rewards.goal_reward(given["outcome"]),
    "curiosity_event_reward": lambda given: curiosity.exploration_reward([given["event"]]),
    "exploration_bonus_by_use_count": lambda given: curiosity.exploration_bonus(
        given["prior_uses"], given.get("is_valid_tool", True)
    ),
    "curiosity_drive": lambda given: curiosity.curiosity_drive(
        given["novelty_score"], given["exploration_bonus"], given["learning_progress"]
    ),
    "competence_drive": lambda given: curiosity.competence_drive(
        given["task_success_rate"], given["skill_improvement"], given["challenge_level"]
    ),
    "autonomy_drive": lambda given: curiosity.autonomy_drive(
        given["self_initiated_actions"], given["goal_setting"], given["independence"]
    ),
    "motivation_mix": lambda given: curiosity.intrinsic_motivation(
        given["curiosity"], given["competence"], given["autonomy"], given["social"]
    ),
    "total_reward": _total_reward,
    "weights_accepted": lambda given: rewards.sums_to_one(given["weights"], given.get("tolerance", 1e-6)),
}
"""By the name of the op."""
