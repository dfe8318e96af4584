"""Rules as reward functions of trainers and rubrics."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from conch import rule
from conch.errors import ContractError
from conch.integrations.offline import act_of, reply_of, trajectory_of
from conch.rewards import execution_reward, format_reward
from conch.rewards.compose import Gate, Sequential, Trajectory, WeightedRewardConfig, WeightedSum, length_penalty
from conch.trl import as_reward_func
from conch.verifiers import as_rubric_func
from conch_schemas import ActionTaken

LS = 'TOOL: shell(command="ls")'
PROSE = "I think I should look around."


def form(action: ActionTaken) -> float:
    """Whether the reply keeps to the grammar."""
    return format_reward(action.action.valid)


def execution(action: ActionTaken) -> float | None:
    """What the act did; None where nobody knows."""
    if action.outcome.status == "unknown":
        return None
    return execution_reward(action.action.kind, action.action.valid, action.outcome.status == "success")


def _talk(text: Any, role: str = "assistant") -> list[dict[str, Any]]:
    return [{"role": role, "content": text}]


# -- TRL ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("conversational", [False, True])
def test_a_rule_scores_each_reply_of_a_batch(conversational: bool) -> None:
    """Texts and lists of messages alike: parsed by the grammar, one value a completion, in their order."""
    replies = [LS, PROSE, "DO_NOTHING: quiet", ""]
    prompts: list[Any] = [_talk("Go on.", "user") if conversational else "Go on."] * 4
    completions: list[Any] = [_talk(reply) if conversational else reply for reply in replies]

    reward = as_reward_func(form)

    assert reward(prompts, completions) == [0.5, -1.0, 0.5, -1.0]
    assert reward(prompts=prompts, completions=completions, completion_ids=[[1]] * 4, trainer_state=object()) == [
        0.5, -1.0, 0.5, -1.0,
    ]  # fmt: skip
    assert reward.__name__ == "form"


def test_columns_make_the_act_richer() -> None:
    """`outcome` tells how a call came out; without one nobody knows, and there is no score rather than a zero."""
    reward = as_reward_func(execution)
    outcomes = ["success", {"status": "error", "output": "no such file"}, None, None]

    assert reward(["p"] * 4, [LS, LS, LS, PROSE], outcome=outcomes) == [1.0, -0.3, None, 0.0]


def test_the_tools_of_a_row_are_what_its_reply_is_checked_against() -> None:
    """By a built-in one's name, or as a function's JSON schema, as data sets with a column `tools` have them."""
    weather = {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"type": "string"},
                    "unit": {"type": "string", "enum": ["C", "F"]},
                    "filled": None,
                },
                "required": ["place"],
            },
        },
    }
    replies = [
        'TOOL: weather(place="Oslo", unit="C")',
        'TOOL: weather(place="Oslo", unit="K")',
        'TOOL: weather(unit="C")',
        LS,
        LS,
        LS,
    ]
    tools = [[weather]] * 4 + [["shell"], None]

    assert as_reward_func(form)(["p"] * 6, replies, tools=tools) == [0.5, -1.0, -1.0, -1.0, 0.5, 0.5]
    assert as_reward_func(form)(["p"], [LS], tools=[["nonsense"]]) == [None]


def test_what_is_no_column_is_left_alone() -> None:
    """Loggers, a state, a list of another length: none of it reaches a rule."""

    def sees(trajectory: Trajectory) -> float:
        return float(len(trajectory.facts))

    reward = as_reward_func(sees, Trajectory)

    found = reward(["p"] * 2, ["a", "b"], answer=["x", "y"], log_extra=print, other=[1, 2, 3], trainer_state=object())
    assert found == [1.0, 1.0]


def test_a_trajectory_rule_is_given_the_conversation() -> None:
    """Prompt and completion as messages, the columns as facts, the tokens of the completion."""
    seen: list[Trajectory] = []

    def look(trajectory: Trajectory) -> float:
        seen.append(trajectory)
        return length_penalty(trajectory)

    found = as_reward_func(look, Trajectory)(
        [_talk("hi", "user")], [_talk("hello")], completion_ids=[[7] * 1250], answer=["hello"]
    )

    assert found == [0.5]
    assert seen == [trajectory_of(_talk("hi", "user"), _talk("hello"), {"answer": "hello"}, (1250,))]


@pytest.mark.parametrize("bad", [ValueError("no"), SystemExit(1), float("nan"), float("inf"), "11 of 10", 1.5])
def test_a_rule_that_fails_gives_none_for_that_reply_alone(bad: Any) -> None:
    """Raising, no finite number, out of the declared range: there is no score, and the other replies have theirs."""

    @rule(range=(0.0, 1.0))
    def picky(action: ActionTaken) -> Any:
        if action.action.kind != "INVALID":
            return 0.25
        if isinstance(bad, BaseException):
            raise bad
        return bad

    assert as_reward_func(picky)(["p"] * 3, [LS, PROSE, LS]) == [0.25, None, 0.25]


def test_a_rule_that_takes_longer_than_it_declares_gives_none() -> None:
    """What is awaited is cancelled when the time is up; what blocks until it is over has no value either."""

    @rule(timeout=0.01)
    async def slow(_: ActionTaken) -> float:
        await asyncio.Event().wait()
        return 1.0

    @rule(timeout=0.01)
    def blocks(_: ActionTaken) -> float:
        began = time.monotonic()
        while time.monotonic() - began < 0.02:
            pass
        return 1.0

    assert as_reward_func(slow)(["p"], [LS]) == [None]
    assert as_reward_func(blocks)(["p"], [LS]) == [None]


async def test_async_rules_run_from_anywhere_on_one_loop() -> None:
    """Within a running loop or without: side by side, and on the same loop batch after batch."""
    loops: set[Any] = set()
    both = asyncio.Barrier(2)

    async def meets(_: ActionTaken) -> float:
        loops.add(asyncio.get_running_loop())
        await both.wait()
        return 1.0

    reward = as_reward_func(meets)

    assert reward(["p"] * 2, [LS, LS]) == [1.0, 1.0]
    assert await asyncio.to_thread(reward, ["p"] * 2, [LS, LS]) == [1.0, 1.0]
    assert len(loops) == 1


def test_rules_made_of_rules_are_reward_functions() -> None:
    """A gate before a weighted sum."""
    config = WeightedRewardConfig({"form": 0.5, "execution": 0.5})
    whole = Sequential(Gate(form, 0.0), WeightedSum({"form": form, "execution": execution}, config))

    assert as_reward_func(whole)(["p"] * 2, [LS, PROSE], outcome=["success", None]) == [0.75, 0.0]


def test_rules_with_a_past_are_asked_without_one() -> None:
    """A window holds the act alone, a state is the first one."""

    class Count(BaseModel):
        acts: int = 0

    @rule(range=(0.0, 9.0), state=Count)
    def counted(state: Count, action: ActionTaken) -> tuple[Count, float]:
        return Count(acts=state.acts + 1), state.acts + 1.0

    @rule(range=(0.0, 9.0), window=5)
    def long(actions: Any) -> float:
        return float(len(actions))

    assert as_reward_func(counted)(["p"] * 2, [LS, LS]) == [1.0, 1.0]
    assert as_reward_func(long)(["p"] * 2, [LS, LS]) == [1.0, 1.0]


def test_what_is_held_out_is_not_trained_on() -> None:
    """It is refused, by name."""

    @rule(held_out=True)
    def honest(_: ActionTaken) -> float:
        return 1.0

    with pytest.raises(ContractError, match="honest is held out"):
        as_reward_func(honest)


def test_no_thread_is_left_behind() -> None:
    """When the function goes, its thread and its loop go too."""
    reward = as_reward_func(form)
    reward(["p"], [LS])
    mine = [thread for thread in threading.enumerate() if thread.name.startswith("conch-trl")]
    del reward
    gc.collect()

    for thread in mine:
        thread.join(5)
    assert mine
    assert not any(thread.is_alive() for thread in mine)


# -- the act -----------------------------------------------------------------------------------------------------------


@given(st.text(max_size=200), st.text(max_size=50))
def test_any_reply_is_an_act(text: str, prompt: str) -> None:
    """Whatever a model writes is parsed and never raises; the same reply is the same act but for its time."""
    one, other = act_of(prompt, text), act_of(prompt, _talk(text))

    assert one.action == other.action
    assert act_of(prompt, text).model_copy(update={"time": one.time}) == one
    assert (one.outcome.status == "unknown") == (one.action.valid and one.action.kind == "TOOL")


def test_the_reply_is_the_last_word_of_the_assistant() -> None:
    """Of several messages the assistant's last one, of several parts their text, of none nothing."""
    said = [*_talk("a"), {"role": "tool", "content": "b"}, *_talk([{"type": "text", "text": "c"}, {"type": "image"}])]

    assert reply_of(said) == "c"
    assert reply_of([*said, {"role": "tool", "content": "d"}]) == "c"
    assert reply_of(_talk(None)) == reply_of([]) == ""
    with pytest.raises(ContractError, match="int"):
        reply_of(3)


def test_columns_that_cannot_be_make_no_act() -> None:
    """They are refused, and as a reward function that row has no score."""
    with pytest.raises(ValueError, match="outcome"):
        act_of("p", LS, {"outcome": "splendid"})
    assert as_reward_func(form)(["p"] * 2, [LS, LS], needs=[{"curiosity": 7.0}, {"curiosity": 0.5}]) == [None, 0.5]


# -- verifiers ---------------------------------------------------------------------------------------------------------


async def test_a_rule_is_a_function_of_a_rubric() -> None:
    """Called by keyword with whatever a rubric offers; columns stand in `info`; by name and signature one rollout's."""
    func = as_rubric_func(execution)

    value = await func(
        prompt=_talk("hi", "user"),
        completion=_talk(LS),
        answer="",
        state={},
        info={"outcome": "success"},
        parser=object(),
    )

    assert value == 1.0
    assert func.__name__ == "execution"
    assert {"prompt", "completion", "answer", "state", "info"} <= set(inspect.signature(func).parameters)
    assert not {"prompts", "completions", "states"} & set(inspect.signature(func).parameters)


async def test_a_rubric_function_of_a_conversation_has_its_answer() -> None:
    """The expected answer and the state of the rollout are facts."""

    async def right(trajectory: Trajectory) -> float:
        return float(trajectory.facts["answer"] in trajectory.messages[-1].content)

    assert await as_rubric_func(right, Trajectory)("2+2?", "it is 4", "4", {}) == 1.0


async def test_no_score_is_an_error_to_a_rubric_and_never_a_number() -> None:
    """Not applicable, raising, out of range: it is told in a sentence with the rule's name."""

    @rule(range=(0.0, 1.0))
    async def eager(_: ActionTaken) -> float:
        return 2.0

    with pytest.raises(ContractError, match="execution: not applicable"):
        await as_rubric_func(execution)("p", LS)
    with pytest.raises(ContractError, match=r"eager: returned 2\.0, outside its range"):
        await as_rubric_func(eager)("p", LS)
