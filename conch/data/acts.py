"""Rows of one act each: prompt-completion for SFT, labels for KTO, prompts for GRPO, and tables of cycles. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from pydantic import JsonValue

from conch.data.row import LINEAGE, Format, LeftOut, Lineage, Origin, Row, make_row
from conch.data.selection import Selection
from conch.data.survey import Survey
from conch.experience import Example, ExampleDecoding

Redact = Callable[[str], str]
"""A text without what must not leave the home: secrets, personal data, lone surrogates."""
UNDECODED: Final = ExampleDecoding()
MOST_LETTERS: Final = 1_000_000
"""Characters of prompt, thought and reply, beyond which an act is no row of any format: no trainer's context holds
them."""
UNREAD: Final = "reply not readable"
"""Why a reply that the endpoint's transport broke is no row: it is no act, and has no score."""
_SHORTENED: Final = re.compile(r"^\[… \d+ characters left out …\]$", re.MULTILINE)
"""Where the middle of a message is not in its event: a text that is told in a prompt has a mark before each line."""
EVEN: Final = 1e-9
"""Advantages up to this are rounding."""


@dataclass(frozen=True)
class Workshop:
    """What the rows of an export are made with."""

    selection: Selection
    survey: Survey
    redact: Redact
    systems: Mapping[str, str]
    """Digest of a policy -> its system prompt."""

    def unasked(self, example: Example) -> str | None:
        """Why the prompt of an act is not known whole; None where it is."""
        if not example.messages:
            return "prompt not recorded"
        if any("left out …]" in one.content and _SHORTENED.search(one.content) for one in example.messages):
            return "prompt shortened"
        policy = example.act.policy
        return "system prompt not recorded" if policy is not None and policy not in self.systems else None

    def prompt(self, example: Example) -> list[JsonValue]:
        """The messages that the model was given, the system prompt first where the policy has one."""
        system = self.systems.get(example.act.policy or "", "")
        said = [("system", system)] if system else []
        said += [(message.role, message.content) for message in example.messages]
        return [{"role": role, "content": self.redact(content)} for role, content in said]

    def reply(self, text: str) -> list[JsonValue]:
        """A reply of the model as the messages of a completion."""
        return [{"role": "assistant", "content": self.redact(text)}]

    def lineage(self, example: Example) -> Lineage:
        """The lineage of a row that was made of one act."""
        decoding = decoding_of(example)
        return {
            "agent": example.act.agent,
            "action_ids": (example.act.action_id,),
            "state_key": decoding.state_key,
            "prompt_hash": decoding.prompt_sha256,
            "policy": example.act.policy,
            "weights": example.verdict.weights,
            "revision": example.revision,
            "reward": example.verdict.total,
            "skill": example.act.data.action.skill,
            "status": example.act.data.outcome.status,
            "role": role_of(example),
            "split": self.survey.split(decoding.state_key),
        }


def role_of(example: Example) -> str | None:
    """The role of a team that acted; None: the agent is no team."""
    turn = example.act.data.team
    return None if turn is None else turn.role


def decoding_of(example: Example) -> ExampleDecoding:
    """How the reply of an act was decoded; empty fields where that was not recorded."""
    return example.act.data.decoding or UNDECODED


def unread_replies(example: Example, selection: Selection) -> Iterator[LeftOut]:
    """The replies before an act of the selection that could not be read for a reason of the transport. The act that
    followed is not among them."""
    count = decoding_of(example).unread
    if count and outside(example, selection) is None:
        yield from (LeftOut(UNREAD, (example.act.action_id,)) for _ in range(count))


def outside(example: Example, selection: Selection) -> str | None:
    """The bound of agent, role, policy, time or length that an act is outside of; None: it is inside of all."""
    if selection.agent is not None and example.act.agent != selection.agent:
        return "another agent"
    if selection.role is not None and role_of(example) != selection.role:
        return "another role"
    if selection.policy is not None and not (example.act.policy or "").startswith(selection.policy):
        return "another policy"
    if selection.since is not None and example.acted < selection.since.timestamp():
        return "before the time asked for"
    if selection.until is not None and example.acted >= selection.until.timestamp():
        return "after the time asked for"
    data = example.act.data
    letters = len(data.raw) + len(data.thought)
    if example.messages:
        letters += sum(len(message.content) for message in example.messages)
    return "too long" if letters > MOST_LETTERS else None


def unfit(example: Example, workshop: Workshop) -> str | None:
    """Why an act is of no use to any trainer; None where it is of use."""
    data = example.act.data
    if reason := outside(example, workshop.selection) or workshop.unasked(example):
        return reason
    if not decoding_of(example).state_key:
        return "state not recorded"
    if data.raw_length > len(data.raw):
        return "reply shortened"
    if data.outcome.status == "unknown":
        return "outcome unknown"
    if example.verdict.coverage < workshop.selection.coverage:
        return "coverage too low"
    return None


def relative_reward(example: Example) -> float:
    """The total over the share of the weight that was scored: an act to which only a part
    of the rules applied can be positive. 0 where no weight was scored."""
    share = sum(score.weight for score in example.verdict.scores if score.status == "scored")
    return example.verdict.total / share if share > 0 else 0.0


def sft_row(example: Example, workshop: Workshop) -> Row | LeftOut:
    """A prompt and the reply to it: valid replies with a positive reward."""
    data = example.act.data
    if reason := unfit(example, workshop):
        return _left(example, reason)
    if not data.action.valid:
        return _left(example, "invalid reply")
    if data.outcome.status == "blocked":
        return _left(example, "blocked")
    if relative_reward(example) < workshop.selection.positive:
        return _left(example, "reward below the threshold")
    columns = {"prompt": workshop.prompt(example), "completion": workshop.reply(data.raw)}
    return make_row("sft", columns, **workshop.lineage(example))


def kto_row(example: Example, workshop: Workshop) -> Row | LeftOut:
    """A prompt, a reply and whether it was better than the others in its state. Invalid replies stay, as negatives."""
    if reason := unfit(example, workshop):
        return _left(example, reason)
    total = example.verdict.total
    advantage = workshop.survey.advantage(example.act.agent, decoding_of(example).state_key, total)
    if advantage is None:
        return _left(example, "no other act to compare with")
    if abs(advantage) <= EVEN:
        return _left(example, "as good as its state's mean")
    label = advantage > 0
    if label and (not example.act.data.action.valid or example.act.data.outcome.status == "blocked"):
        return _left(example, "invalid or blocked, and above its state's mean")
    columns: dict[str, JsonValue] = {
        "prompt": workshop.prompt(example),
        "completion": workshop.reply(example.act.data.raw),
        "label": label,
    }
    lineage: Lineage = {**workshop.lineage(example), "margin": advantage}
    return make_row("kto", columns, **lineage)


def grpo_row(example: Example, workshop: Workshop) -> Row | LeftOut:
    """A prompt, whatever was replied to it."""
    reason = unfit(example, workshop)
    if reason not in (None, "reply shortened", "outcome unknown", "coverage too low"):
        return _left(example, reason or "")
    return make_row("grpo", {"prompt": workshop.prompt(example)}, **workshop.lineage(example))


class ScoreColumn(msgspec.Struct, frozen=True, gc=False):
    """A component of a verdict, in the order of its sorted names."""

    component: str
    status: str
    value: float | None
    weight: float


class NeedColumn(msgspec.Struct, frozen=True, gc=False):
    """How far a need was satisfied."""

    need: str
    satisfaction: float


class CycleDocument(msgspec.Struct, frozen=True, gc=False):
    """The columns and the lineage of a row of cycles without its split, in the order of their sorted names: as it is
    encoded it is the row's `content`."""

    acted: float
    action_ids: tuple[str]
    agent: str
    complete: bool
    constraint: str
    coverage: float
    cycle: int
    engine: str
    episode: str | None
    kind: str
    margin: None
    model: str
    needs: list[NeedColumn]
    origin: Origin
    policy: str | None
    prompt_hash: str
    propensity: float | None
    reply: str
    revision: int
    reward: float
    role: str | msgspec.UnsetType
    """Not in the content of an act of no role."""
    scores: list[ScoreColumn]
    seq: int
    skill: str
    state_key: str
    status: str
    step: int
    terminal: bool
    thought: str
    tool: str | None
    valid: bool
    weight: float
    weights: str


def cycle_document(example: Example, reply: str, thought: str) -> CycleDocument:
    """A cycle as a flat table has it, whatever it is worth, with its reply and its thought redacted. Scores of held-out
    rules are left out of it."""
    act, verdict = example.act, example.verdict
    data = act.data
    action, decoding, needs, turn = data.action, data.decoding or UNDECODED, data.needs, data.team
    return CycleDocument(
        example.acted,
        (act.action_id,),
        act.agent,
        verdict.complete,
        decoding.constraint,
        verdict.coverage,
        act.cycle,
        decoding.engine,
        data.episode,
        action.kind,
        None,
        data.model,
        [NeedColumn(*need) for need in sorted(needs.items())],
        "acted",
        act.policy,
        decoding.prompt_sha256,
        decoding.propensity,
        reply,
        example.revision,
        verdict.total,
        msgspec.UNSET if turn is None else turn.role or msgspec.UNSET,
        [ScoreColumn(one.component, one.status, one.value, one.weight)
         for one in verdict.scores if one.role != "held_out"],
        example.seq,
        action.skill,
        decoding.state_key,
        data.outcome.status,
        data.step,
        data.terminal,
        thought,
        action.tool,
        action.valid,
        1.0,
        verdict.weights,
    )  # fmt: skip


def cycle_row(example: Example, workshop: Workshop) -> Row | LeftOut:
    """The row of a `cycle_document`."""
    if reason := outside(example, workshop.selection):
        return _left(example, reason)
    data = example.act.data
    document = cycle_document(example, workshop.redact(data.raw), workshop.redact(data.thought))
    columns = {name: value for name, value in msgspec.to_builtins(document).items() if name not in LINEAGE}
    return make_row("cycles", columns, **workshop.lineage(example))


def _left(example: Example, reason: str) -> LeftOut:
    return LeftOut(reason, (example.act.action_id,))


ROWS: Final[Mapping[Format, Callable[[Example, Workshop], Row | LeftOut]]] = {
    "sft": sft_row,
    "kto": kto_row,
    "grpo": grpo_row,
    "cycles": cycle_row,
}
"""The formats of one act a row."""
