"""What an act brought about, as the agent measured it: the block `effect` of `action.taken`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch_schemas.envelope import Value

EffectKind = Literal["none", "information", "change", "progress", "answer"]


class ChangedLines(Value):
    """Lines of workspace files, counted after trimming, over all files that the act changed."""

    added: int = Field(default=0, ge=0)
    """Lines that a file has after the act and did not have before."""
    new: int = Field(default=0, ge=0)
    """Added lines that the agent has neither read, written nor been sent before."""
    removed: int = Field(default=0, ge=0)
    """Lines that a file had before the act and no longer has."""
    moved: int = Field(default=0, ge=0)
    """Added lines that the act removed elsewhere in the workspace."""


class Information(Value):
    """Lines that the act brought to the agent."""

    lines: int = Field(default=0, ge=0)
    """Lines of workspace files, people's messages and the outside world in the output."""
    new: int = Field(default=0, ge=0)
    """Those that the agent had not met before."""
    finished_file: bool = False
    """Whether the last unseen lines of a file were among them."""


class CheckRun(Value):
    """A goal's check, or a test program, that the act itself ran."""

    goal: str | None = None
    """The goal's id; None: a test program that is no goal's check."""
    ran: bool = False
    """Whether it ran to its end, whatever its verdict, and a test program gave the result of a test."""
    changed_since: bool = False
    """Whether the workspace had changed since it ran last, or it had never run."""
    no_result: bool = False
    """Whether it is a test program that ended without the result of a test: it found none, or could load or compile
    none. The act is idle then, unless it moved a goal."""


class GoalWork(Value):
    """How the act stood to the agent's goals, as the agent counted it before the act: what version 5 of the rules of
    `reward` needs beside the effect itself."""

    open: int = Field(ge=0)
    """Goals that pay and were open, and messages of people that waited for an answer."""
    allowance: int = Field(ge=0)
    """Changes and test runs that move no goal which were still paid. It begins at `effects.run_length`; each one that
    is paid takes one away, and a reached goal or an answered message gives some of what it took back."""
    appended: tuple[str, ...] = ()
    """Files to which the act only added lines, at most 10; empty where it also removed some."""
    appends: int = Field(default=0, ge=0)
    """How often, this act included, lines were only added to each of these files since a goal's measure moved: the
    least of them; 0 where `appended` is empty."""


class ContextUse(Value):
    """The share of the model's context that the decision's prompt used."""

    tokens: int = Field(ge=0)
    """Tokens of the prompt."""
    window: int = Field(gt=0)
    """Tokens of the model's context window."""


class MeasuredEffect(Value):
    """What the act brought about. An operation's declared effect says what it may change; this says what it did."""

    kind: EffectKind = "none"
    """`none`: an idle act. `answer`: a person's message was answered. `progress`: a goal's measure rose above its best.
    `change`: the workspace has lines that are new. `information`: the agent read lines that it had not met."""
    paths: tuple[str, ...] = ()
    """Paths in the workspace that differ after the act (size, mode, time of change), at most 100."""
    lines: ChangedLines = ChangedLines()
    information: Information = Information()
    noise: bool = False
    """Whether what was read or written is noise: of 40 letters or more, with fewer than half of the letter trigrams
    known from what the agent has read in that script."""
    target: str | None = None
    """The path that the act was about, or the program and the file of a command; None: the act has none."""
    checks: tuple[CheckRun, ...] = ()
    previous_path: str | None = None
    """The path that the last navigation before this act was at."""
    opened: int = Field(default=0, ge=0)
    """Notes, memories or search hits that the act opened."""
    lines_changed: int = Field(default=0, ge=0)
    """Lines added and removed, moved ones included."""
    context: ContextUse | None = None
    """None: the mind does not know both numbers."""
    skills_on_offer: int = Field(default=0, ge=0)
    """Number of tool × operation pairs that the agent could choose from; 0: not known."""
    need_events: tuple[str, ...] = ()
    """Events of needs that the agent measured: learned_something, new_topic, resource_low, resource_recovered."""
    work: GoalWork | None = None
    """None: recorded by a version that did not count it; the rules of `reward` before version 5 hold then."""
