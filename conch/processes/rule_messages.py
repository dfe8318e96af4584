"""Messages between the consumer of a plug-in rule and the rule's process: one JSON object a line.

The process's stdin gets a `RuleTask`, answered by `RuleLoaded` or `RuleFailed`; then acts, two lines each: the rule's
state (`RuleInput`) and the act as its event. Each act is answered by one line, in order.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from conch.processes.line import PipeMessage, decode


class RuleTask(PipeMessage):
    """The rule that the process runs."""

    kind: Literal["task"] = "task"
    origin: str
    """A file's path, or `group:entry point`."""
    name: str
    text: str | None
    """Of a file: its text at discovery; None: the file is read when it is loaded."""
    memory_mib: int
    """Limit of the process's address space, in MiB."""


class RuleInput(PipeMessage):
    """The rule's state after the acts before; the act follows on the next line."""

    kind: Literal["input"] = "input"
    state: str | None = None
    """For a rule with a state of its own: as JSON; None before the first act of an agent."""
    acts: tuple[str, ...] = ()
    """For a rule with a window: earlier acts as JSON, oldest first."""


class RuleLoaded(PipeMessage):
    """The rule is loaded; acts may come."""

    kind: Literal["loaded"] = "loaded"


class RuleAnswered(PipeMessage):
    """The rule's result for an act."""

    kind: Literal["answered"] = "answered"
    id: str
    """The act's id."""
    value: float | str | None
    """None: not applicable. A text: the description of a result that is no finite number."""
    why: str = ""
    """What the rule said of this value; empty: nothing."""
    state: str | None = None
    """For a rule with a state of its own: its state after the act, as JSON."""


class RuleFailed(PipeMessage):
    """The rule could not be loaded, or raised."""

    kind: Literal["failed"] = "failed"
    id: str = ""
    """The act's id; empty while the rule is loaded."""
    error: str
    restart: bool = False
    """Whether the process should be started again: it has left too much running."""


class RuleStateUnreadable(PipeMessage):
    """The rule cannot read its state."""

    kind: Literal["state_unreadable"] = "state_unreadable"
    id: str
    why: str


RuleAnswer = RuleLoaded | RuleAnswered | RuleFailed | RuleStateUnreadable
"""The messages that the process writes."""
_ANSWERS: TypeAdapter[RuleAnswer] = TypeAdapter(
    Annotated[RuleAnswer, Field(discriminator="kind")], config=ConfigDict(defer_build=True)
)


def decode_answer(line: bytes) -> RuleAnswer:
    """The answer in a line of the rule's process. Raises ContractError, in one sentence, for anything else."""
    return decode(_ANSWERS, line, "an answer")
