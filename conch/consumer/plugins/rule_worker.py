"""`python -m conch.consumer.plugins.rule_worker`: the process that one plug-in rule runs in.

Its lines are those of `conch.processes.rule_messages`. What the rule prints goes to stderr, and on stdin it finds
nothing. The process ends with its stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import os
import resource
import sys
import threading
from typing import IO, Any

from pydantic import BaseModel, ValidationError

from conch.consumer.plugins.discover import load_one
from conch.consumer.plugins.rule_state import STATE_BYTES
from conch.installed import error_words
from conch.processes import (
    RuleAnswer,
    RuleAnswered,
    RuleFailed,
    RuleInput,
    RuleLoaded,
    RuleStateUnreadable,
    RuleTask,
    decode_line,
)
from conch.rules import DeclaredRule, meaning_of, state_and_value
from conch.tasks import cancel_and_wait
from conch_schemas import ActionTaken, decode

MOST_LEFT = 64
"""Threads and child processes that a rule may leave running after an act; with more its process is restarted."""

_TASKS = "/proc/self/task"


class _UnreadableRuleStateError(Exception):
    """The stored state does not fit the rule's state model."""


def _answered(action: ActionTaken, result: object, state: str | None = None) -> RuleAnswered:
    """The message with a rule's result: a value, or (value, why)."""
    value, why = meaning_of(result)
    return RuleAnswered(id=action.id, value=value, why=why, state=state)


def answer_of(
    rule: DeclaredRule, loop: asyncio.AbstractEventLoop, carried: RuleInput, action: ActionTaken
) -> RuleAnswered:
    """The rule's answer to an act, given what it carries: of a window earlier acts, else its state, as JSON.

    Exceptions of the rule are not caught.
    """
    if rule.info.window is not None:
        given: tuple[Any, ...] = ((*(decode(act.encode()) for act in carried.acts), action),)
    elif rule.state is not None:
        given = (_state(rule.state, carried.state), action)
    else:
        given = (action,)
    result = rule.function(*given)
    if inspect.isawaitable(result):
        result = loop.run_until_complete(_awaited(result))
    if rule.state is None:
        return _answered(action, result)
    state, value = state_and_value(result, rule.state)
    return _answered(action, value, _written(rule.state, state))


def _state(model: type[BaseModel], text: str | None) -> BaseModel:
    if text is None:
        return model()
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise _UnreadableRuleStateError(f"{model.__name__}: {error.errors()[0]['msg']}") from None


def _written(model: type[BaseModel], state: BaseModel) -> str:
    """The state as JSON. Raises ValueError for one that is too large, or that could not be read again."""
    text = state.model_dump_json()
    if (size := len(text.encode())) > STATE_BYTES:
        raise ValueError(f"its state takes {size // 1024} KiB, more than {STATE_BYTES // 1024}: keep less of the past")
    try:
        model.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(f"its state could not be read again ({error.errors()[0]['msg']})") from None
    return text


async def _awaited(result: Any) -> Any:
    """The result; tasks that the rule leaves behind are cancelled, in the rule's time."""
    try:
        return await result
    finally:
        await cancel_and_wait(*(asyncio.all_tasks() - {asyncio.current_task()}))


def _left_running() -> int:
    """Threads beside the main one, and child processes where the system reports them (Linux)."""
    children = 0
    for task in (
        os.listdir(_TASKS) if os.path.isdir(_TASKS) else ()
    ):  # after every act: pathlib takes three times as long
        with contextlib.suppress(OSError), open(f"{_TASKS}/{task}/children", "rb") as file:
            children += len(file.read().split())
    return threading.active_count() - 1 + children


def _write(answers: IO[bytes], answer: RuleAnswer) -> None:
    answers.write(answer.encode())
    answers.flush()


def _serve(rule: DeclaredRule, acts: IO[bytes], answers: IO[bytes]) -> None:
    answer: RuleAnswer
    own, loop = os.getpid(), asyncio.new_event_loop()
    while carried := acts.readline():
        event = decode(acts.readline())
        try:
            assert isinstance(event, ActionTaken)
            answer = answer_of(rule, loop, decode_line(RuleInput, carried, "what a rule carries"), event)
        except _UnreadableRuleStateError as error:
            answer = RuleStateUnreadable(id=event.id, why=str(error)[:200])
        except BaseException as error:
            answer = RuleFailed(id=event.id, error=error_words(error, _file(rule)))
        if os.getpid() != own:
            os._exit(0)  # the rule forked, and this is its child
        if asyncio.all_tasks(loop):  # something ended the loop while it ran
            loop.close()
            loop = asyncio.new_event_loop()
        left = _left_running()
        if left > MOST_LEFT:
            why = f"{left} threads and processes of it were still running: a rule ends what it begins"
            answer = RuleFailed(id=event.id, error=why, restart=True)
        _write(answers, answer)


def _file(rule: DeclaredRule) -> str | None:
    """The file that defines the rule's function, as its tracebacks name it."""
    code = getattr(inspect.unwrap(rule.function), "__code__", None)
    return None if code is None else str(code.co_filename)


def main() -> None:
    """Load the rule, report it, then score."""
    acts, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what a rule prints is there at once, also where it is killed
    task = decode_line(RuleTask, acts.readline(), "the task of a rule's process")
    limit = task.memory_mib * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        rule = load_one(task.origin, task.name, task.text)
        assert isinstance(rule, DeclaredRule), f"{task.name} is a consumer, not a rule"
    except BaseException as error:
        _write(answers, RuleFailed(error=error_words(error, task.origin)))
        return
    _write(answers, RuleLoaded())
    _serve(rule, acts, answers)


if __name__ == "__main__":
    main()
