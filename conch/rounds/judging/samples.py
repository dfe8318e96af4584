"""Decodes recorded decisions under an adapter and under none, and scores what comes of it: samples of gate and shadow.

Each reply is a line of a file, the evidence; a run that was ended goes on behind the last line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from conch.config import Settings
from conch.cycle.decide import prompt_digest
from conch.errors import ToolError, UsageError
from conch.forks import Fork, ForkMinds, ForkRequest, RecordedCycle
from conch.log import get_logger
from conch.rounds.judging.scoring import CandidateScore, CandidateScorer
from conch.training import ShelvedAdapter
from conch.training.gate import GateReply, GateSample
from conch.values import Values
from conch_schemas import ForkScored

log = get_logger(__name__)
SampleArm = Literal["incumbent", "candidate"]


class ActingEngine(Protocol):
    """The engine that an agent acts through, ready to decode under its base and under adapters."""

    kind: str
    """As `ProbeRecord.lines` and `AdapterProbed.engine` name it."""
    minds: ForkMinds
    """Minds that ask it, each with a seed of its own."""

    async def load(self, adapter: ShelvedAdapter) -> None:
        """Have the engine serve the adapter, and prove by its probe that it does; a second call does nothing more.

        Raises AdapterError where it does not serve it, or its replies are not those of the adapter.
        """
        ...


class SampledReply(BaseModel):
    """A line of the evidence: one reply of one of the two, and what it brought about."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    arm: SampleArm
    adapter: str | None
    """Digest; None: the base alone."""
    cycle: int
    """Of the recorded decision."""
    state: str
    """State key and prompt of the decision."""
    seed: int
    raw: str
    action: str
    """Skill or kind of the action."""
    status: str
    """Of its outcome in the copy of the workspace."""
    total: float
    valid: bool
    idle: bool
    reply: bool
    violation: bool
    length: int
    held_out: float | None = None
    missing: str = ""
    """The component whose score could not be made."""

    def for_gate(self) -> GateReply:
        """As the gate reads it."""
        return GateReply(
            total=None if self.missing else self.total,
            valid=self.valid,
            idle=self.idle,
            reply=self.reply,
            violation=self.violation,
            length=self.length,
            skill=self.action if self.valid else "",
            held_out=self.held_out,
            judge_missing=bool(self.missing),
        )


class SampleRun:
    """Samples of one engine for recorded decisions, with the evidence in a file."""

    def __init__(
        self, engine: ActingEngine, settings: Settings, values: Values, scorer: CandidateScorer, file: Path
    ) -> None:
        self._engine, self._settings, self._values, self._scorer = engine, settings, values, scorer
        self._file = file

    async def compare(
        self,
        cycles: Iterable[RecordedCycle],
        incumbent: ShelvedAdapter | None,
        candidate: ShelvedAdapter,
        seed: int,
    ) -> list[GateSample]:
        """A sample of each decision, both decoded with this seed. A decision that cannot be tried any more is left out.

        Raises ModelError where the engine does not reply, AdapterError where it does not serve one of the two, OSError
        where the evidence cannot be written.
        """
        for adapter in (incumbent, candidate):
            if adapter is not None:
                await self._engine.load(adapter)
        found = {
            (one.arm, one.adapter, one.cycle, one.seed): one for one in read_samples(self._file) if not one.missing
        }
        arms: tuple[tuple[SampleArm, ShelvedAdapter | None], ...] = (("incumbent", incumbent), ("candidate", candidate))
        samples = []
        for recorded in cycles:
            pair = []
            for arm, adapter in arms:
                key = arm, None if adapter is None else adapter.digest, recorded.cycle, seed
                reply = found.get(key) or await self._reply(arm, adapter, recorded, seed)
                pair += [] if reply is None else [reply]
            if len(pair) == 2:
                samples.append(GateSample(pair[0].state, seed, pair[0].for_gate(), pair[1].for_gate()))
        return samples

    async def _reply(
        self, arm: SampleArm, adapter: ShelvedAdapter | None, recorded: RecordedCycle, seed: int
    ) -> SampledReply | None:
        try:
            request = ForkRequest(recorded, (seed,), None if adapter is None else adapter.digest)
            fork = Fork(request, self._engine.minds, self._settings, self._values)
            [candidate] = [one async for one in fork.candidates((seed,))]
        except (ToolError, UsageError) as error:
            log.warning("gate.decision_left_out", agent_id=recorded.agent, cycle=recorded.cycle, error=str(error))
            return None
        said = await self._scorer.score(recorded, candidate)
        reply = _sampled(arm, adapter, recorded, candidate, said)
        append_line(self._file, reply.model_dump_json())
        return reply


def read_samples(file: Path) -> Iterator[SampledReply]:
    """The lines of the evidence; a last one that was cut by a kill is passed over."""
    if not file.exists():
        return
    for line in file.read_bytes().split(b"\n"):
        try:
            if line:
                yield SampledReply.model_validate_json(line)
        except ValidationError:
            log.warning("gate.line_unreadable", file=str(file))


def append_line(file: Path, line: str) -> None:
    """Append a line; one that a kill has cut is ended first, and stays unreadable. Raises OSError."""
    with file.open("a+b") as opened:
        if opened.tell():
            opened.seek(-1, os.SEEK_END)
            cut = opened.read(1) != b"\n"
        else:
            cut = False
        opened.write((b"\n" if cut else b"") + line.encode() + b"\n")


def sample_state(recorded: RecordedCycle) -> str:
    """What counts as one state: the state key with the prompt. Two decisions with the same prompt are one."""
    key = recorded.act.decoding.state_key if recorded.act.decoding is not None else ""
    return f"{key}/{prompt_digest(recorded.kept().prompt())[:16]}"


def gate_pairs(states: int) -> int:
    """Least states of a gate, of the most that it may have: half of them, 8 to 50."""
    return min(50, max(8, states // 2))


def _sampled(
    arm: SampleArm,
    adapter: ShelvedAdapter | None,
    recorded: RecordedCycle,
    candidate: ForkScored,
    said: CandidateScore,
) -> SampledReply:
    action = candidate.action
    decoded = candidate.decoding.tokens if candidate.decoding is not None else None
    return SampledReply(
        arm=arm,
        adapter=None if adapter is None else adapter.digest,
        cycle=recorded.cycle,
        state=sample_state(recorded),
        seed=candidate.seed,
        raw=candidate.raw,
        action=action.skill or action.kind,
        status=candidate.outcome.status,
        total=candidate.total + said.paid,
        valid=action.valid,
        idle=action.valid and action.kind != "TOOL",
        reply=action.tool == "reply",
        violation=candidate.outcome.status == "blocked" and not candidate.why_not,
        length=decoded or candidate.usage.output_tokens or len(candidate.raw.split()),
        held_out=said.held_out,
        missing=said.missing,
    )


def by_cycle(samples: Sequence[SampledReply]) -> dict[int, dict[SampleArm, SampledReply]]:
    """The replies side by side, by the cycle of the decision."""
    found: dict[int, dict[SampleArm, SampledReply]] = {}
    for one in samples:
        found.setdefault(one.cycle, {})[one.arm] = one
    return found
