"""The vectors' ops, each a function of a vector's input that calls the product's own rule and lets refusals raise.

Importable alone; `tests/data/vectors.json` holds the vectors and the tool table of `parse_action`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from conch import curiosity, needs, rewards, rules, teams, witness
from conch.actions import Argument, Registry, ToolSpec, parse
from conch.config import BUILTIN_WEIGHTS
from conch.judge import JudgeConfig, JudgeQuestion, judge_key, score_with_llm_judge
from conch.rewards import compose, progress
from conch.rewards.compose import Message, Trajectory, WeightedRewardConfig

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


# -- the constitution --------------------------------------------------------------------------------------------------

_TURN = {"response", "tool_count", "tools", "tools_passed", "context_utilization"}


class _ByPrinciple(dict[str, float]):
    """Scores that are found by names in small and in capital letters."""

    def __missing__(self, name: str) -> float:
        return self[name.lower()] if name != name.lower() else super().__getitem__(name)


def _principles(score: rewards.PrincipleScore) -> dict[str, Any]:
    return {"scores": _ByPrinciple(score.to_dict()), "total": score.weighted_total()}


def _chat(given: dict[str, Any]) -> dict[str, Any]:
    table = given.get("turn_result", given if given.keys() & _TURN else None)
    turn = None
    if table is not None:
        tools = table.get("tools") or ["tool"] * (table.get("tool_count") or 0)
        turn = rewards.TurnResult(
            tools_passed=table.get("tools_passed", True),
            tools=tuple(tools),
            response=table.get("response") or "",
            context_utilization=table.get("context_utilization"),
        )
    return _principles(rewards.constitutional_reward("send_message", turn, bool(given.get("has_mutations"))))


def _domain(domain: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda given: _principles(rewards.score_principles(domain, "act", given))


def _alignment(given: dict[str, Any]) -> dict[str, Any]:
    found = rewards.alignment(given["scores"], given.get("threshold", 0.5))
    return {
        "weighted_total": found.total,
        "is_compliant": found.compliant,
        "violation_count": len(found.violations),
        "violations": list(found.violations),
    }


# -- composition -------------------------------------------------------------------------------------------------------


def _messages(said: Iterable[Mapping[str, Any]]) -> tuple[Message, ...]:
    return tuple(Message(message["role"], message["content"]) for message in said)


def _tokens(given: Mapping[str, Any]) -> Trajectory:
    tokens = given.get("completion_tokens")
    return Trajectory((), () if tokens is None else tuple(tokens) if isinstance(tokens, list) else (tokens,), given)


def _weighted(given: dict[str, Any]) -> dict[str, Any]:
    rules = {name: (lambda _, value=value: value) for name, value in given["scores"].items()}
    found = asyncio.run(compose.compute_weighted_reward(Trajectory(()), rules, WeightedRewardConfig(given["weights"])))
    return {"total": found.total, "components": {name: part.value for name, part in found.parts.items()}}


def _batch(given: dict[str, Any]) -> dict[str, Any]:
    rules: dict[str, Callable[[Trajectory], float]] = {
        "llm_judge": lambda item: item.facts["judge"],
        "length_penalty": compose.length_penalty,
        "format_compliance": lambda item: item.facts["format"],
    }
    found = asyncio.run(
        compose.score_batch(
            [_tokens(item) for item in given["items"]],
            {name: rules[name] for name in given["weights"]},
            WeightedRewardConfig(given["weights"]),
            baseline=given.get("baseline"),
            normalize=given.get("normalize", True),
        )
    )
    return {"rewards": list(found.rewards), "advantages": list(found.advantages)}


def _group_advantages(given: dict[str, Any]) -> list[float | None]:
    normalize = given.get("normalize_std", True)
    return list(compose.group_advantages(given["rewards"], given["groups"], normalize=normalize).advantages)


def _signs(given: dict[str, Any]) -> dict[str, list[int]]:
    limits = (given.get("positive_at", 0.3), given.get("negative_at", -0.3))
    positive, negative = compose.positives_and_negatives(given["rewards"], *limits)
    return {"positive": list(positive), "negative": list(negative)}


def _judge_calls(given: dict[str, Any]) -> dict[str, Any]:
    calls: list[JudgeQuestion] = []

    async def ask(question: JudgeQuestion) -> str:
        calls.append(question)
        return '{"score": 0.5, "explanation": "Neither good nor bad."}'

    config = JudgeConfig("Is it helpful?", "judge-1", ask)
    before = {judge_key(Trajectory(_messages(said)), config): 0.5 for said in given.get("cached") or ()}

    async def judge() -> Mapping[str, float]:
        cache: Mapping[str, float] = before
        for said in given["trajectories"]:
            _, cache = await score_with_llm_judge(Trajectory(_messages(said)), config, cache)
        return cache

    cache = asyncio.run(judge())
    return {"calls": len(calls), "cache_size": len(cache), "same_cache_object": cache is before}


# -- progress ----------------------------------------------------------------------------------------------------------


def _step_reward(given: dict[str, Any]) -> float:
    return progress.step_reward(_task_state(given.get("prev")), _task_state(given.get("curr")))


def _task_state(said: dict[str, Any] | None) -> dict[str, Any]:
    return {"roles": (said or {}).get("role_shares")} | (said or {})


# -- the witness -------------------------------------------------------------------------------------------------------


def _linked(given: dict[str, Any]) -> str:
    """Times stand for places in the sequence; a source that is no known mark is in no place."""
    known = given["source_kind"] == "mark" and given.get("source_time") is not None
    places = {"source": given["source_time"]} if known else {}
    return witness.appended(places, "new", given["new_time"], [("source", given["relation"])])


def _walked(given: dict[str, Any]) -> str:
    return witness.status_after(given["start"].lower(), given["calls"]).upper()


# -- teams -------------------------------------------------------------------------------------------------------------


def _ridge(given: dict[str, Any]) -> float:
    model = teams.empty_model(given.get("dim", 8), given.get("ridge", 0.01))
    for update in given["updates"]:
        model = teams.updated(model, update["x"], update["reward"])
    return teams.predicted(model, given["query"])


def _greedy(given: dict[str, Any]) -> str:
    models = [teams.empty_model() for _ in given["actions"]]
    action: str = given["actions"][teams.greedy(models, [1.0] * 8)]
    return action


def _features(given: dict[str, Any]) -> list[float]:
    return list(
        teams.feature_vector(
            given["topology"],
            given["steps_since_switch"],
            given["messages_in_window"],
            given["tokens_used"],
            given["token_budget"],
            dwell=given["dwell_min_steps"],
        )
    )


def _coordinated(given: dict[str, Any]) -> list[str]:
    topology, state, replies = given["start"], teams.CoordinatorState(), []
    for event in given["events"]:
        if event == "step":
            state = teams.stepped(state)
            continue
        why = teams.objection(state, topology, event, dwell=given["dwell"], cooldown=given["cooldown"])
        if why is None:
            topology, state = event, teams.switched()
        replies.append(why or "committed")
    return replies


class _RouterFacts:
    """A switch's facts, applied to a router and stored nowhere."""

    def __init__(self, router: teams.RouterState) -> None:
        self.router = router

    async def prepare(self, target: teams.Topology) -> None:
        self.router = teams.prepared(self.router, target)

    async def commit(self) -> None:
        self.router = teams.committed(self.router)

    async def abort(self, why: str) -> None:
        self.router = teams.aborted(self.router)


def _switched(given: dict[str, Any]) -> dict[str, Any]:
    queue: dict[str, Any] = {"coder": (_routed("m0", given["epoch"]),)}
    queues = {} if given["active_queue_empty"] else queue
    router = teams.RouterState(topology=given["start"], epoch=given["epoch"], queues=queues)
    found = asyncio.run(teams.switch(_RouterFacts(router), given["target"]))
    return {"ok": found.ok, "epoch": found.epoch, "topology": found.topology, "phase": found.phase}


def _routed(id: str, epoch: int) -> teams.RoutedMessage:
    return teams.RoutedMessage(id=id, sender="planner", to="coder", text="", step=0, epoch=epoch)


def _aborted(given: dict[str, Any]) -> dict[str, Any]:
    active, waited = (
        [_routed(id, epoch) for id in given[name]] for epoch, name in enumerate(("active", "buffered_next"))
    )
    router = teams.RouterState(target="chain", queues={"coder": tuple(active)}, buffered=tuple(waited))
    after = teams.aborted(router, teams.RouterLimits(delivered=0))
    order = [message.id for message in after.queues.get("coder", ())]
    return {"order": order, "redelivered": [message.id for message in waited]}


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
    "constitutional_reward.chat": _chat,
    "constitutional_reward.navigation": _domain("navigation"),
    "constitutional_reward.portal": _domain("portal"),
    "constitutional_reward.edit": _domain("edit"),
    "constitutional_reward.unknown_domain": _domain("unknown_domain"),
    "weighted_total": lambda given: rewards.PrincipleScore.from_dict(given["scores"]).weighted_total(
        given.get("weights")
    ),
    "alignment_from_scores": _alignment,
    "from_dict": lambda given: _ByPrinciple(rewards.PrincipleScore.from_dict(given["data"]).to_dict()),
    "generative_score": lambda given: rewards.generative_score(given.get("context_utilization")),
    "step_reward": _step_reward,
    "phase_advanced": lambda given: progress.phase_advanced(given.get("prev"), given.get("curr")),
    "count_rewarded_advances": lambda given: progress.rewarded_advances(given["phases"]),
    "role_share_phase_change": lambda given: progress.role_share_phase_change(given.get("prev"), given.get("curr")),
    "final_bonus": lambda given: progress.final_bonus(bool(given.get("success"))),
    "length_penalty": lambda given: compose.length_penalty(_tokens(given)),
    "weighted_reward": _weighted,
    "score_batch": _batch,
    "advantages": lambda given: compose.compute_advantages(
        given["rewards"], given.get("baseline"), given.get("normalize", True)
    ),
    "group_advantages": _group_advantages,
    "positives_and_negatives": _signs,
    "cache_key": lambda given: compose.cache_key(given["messages"]),
    "cache_key_equal": lambda given: compose.cache_key(given["a"]) == compose.cache_key(given["b"]),
    "judge_calls": _judge_calls,
    "append_linked_mark": _linked,
    "append_same_id_twice": lambda given: witness.appended({"mark": 0}, "mark", 1),
    "walk_status_after": _walked,
    "bellman_chain_value": lambda given: witness.chain_value(
        given["step_rewards"], given.get("gamma", witness.GAMMA), given.get("terminal_value", 0.0)
    ),
    "trace_total_value": lambda given: witness.trace_total(given["values"], given.get("gamma", witness.GAMMA)),
    "epsilon": lambda given: teams.epsilon(given["decisions"]),
    "ridge_prediction": _ridge,
    "greedy_action_all_zero_models": _greedy,
    "feature_vector": _features,
    "window_shares": lambda given: list(
        teams.window_shares(given["steps"], given.get("uncommitted", ()), given.get("window", 32))
    ),
    "coordinator_replies": _coordinated,
    "switch_result": _switched,
    "abort_order": _aborted,
    "accept_message": lambda given: teams.accepts(
        given["active_epoch"], given["message_epoch"], accepting_next=given["accepting_next"]
    ),
    "weights_accepted": lambda given: rules.sums_to_one(given["weights"], given.get("tolerance", 1e-6)),
}
"""By the name of the op."""
