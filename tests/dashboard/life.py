"""A life to be looked at: acts as an agent makes them, scored by the consumers that come with Conch."""

from __future__ import annotations

import copy
import hashlib
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from conch.config import Settings
from conch.consumer import ServiceContext
from conch.consumer.plugins.builtin import builtin_services
from conch.rewards.weights import weight_set, weights_version
from conch.text import cut
from conch.witness.words import Scored, score_sets
from conch_schemas import (
    Action,
    ActionDecided,
    ActionTaken,
    Claim,
    Cut,
    CycleReflected,
    Decoding,
    Event,
    GoalCheck,
    NoveltyMeasured,
    Outcome,
    PolicySet,
    PromptMessage,
    ThoughtFormed,
    ThoughtGrounded,
    Usage,
    WeightsSet,
    action_id,
    consequence_id,
    cycle_event_id,
    source_of,
)
from tests.witnessed import recorded

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>"
    "\x1b[2J\x1b]0;owned\x07[/nope] [bold]\u202egnp.exe\u2066 {{ 7*7 }}"
)
"""What no page and no terminal may take for more than text."""
SCORERS = ("reward", "needs", "curiosity", "witness")
CYCLE_SECONDS = 5.0
DECODING = Decoding(
    engine="llama.cpp",
    model="qwen2.5-coder:7b",
    adapter="0123456789abcdef",
    temperature=0.7,
    seed=4,
    logprob=-9.5,
    tokens=40,
    constraint="grammar",
    prompt_sha256="ab" * 32,
    state_key="0123456789abcdef",
)


def whole(text: str) -> Cut:
    """A text that nothing was cut from."""
    return Cut(text=text, length=len(text), sha256=hashlib.sha256(text.encode()).hexdigest())


class Life:
    """Makes the facts of one agent, cycle by cycle, each a few seconds after the one before."""

    def __init__(self, agent: str = "echo", *, begun: datetime = datetime(2026, 11, 20, 12, tzinfo=UTC)) -> None:
        self.agent, self.begun = agent, begun
        self.uid = str(uuid.uuid5(uuid.NAMESPACE_URL, agent))
        self.next = 1
        """Number of the next cycle."""
        self._settings = Settings()
        context = ServiceContext(self._settings, Path("/nowhere"))
        self._specs = [make(context) for make in builtin_services(SCORERS).values()]
        self._states: dict[str, Any] = {spec.name: spec.initial() for spec in self._specs if spec.state is not None}

    def copy(self) -> Life:
        """The same agent at the same cycle, which goes on by itself."""
        made = copy.copy(self)
        made._states = copy.deepcopy(self._states)
        return made

    def at(self, cycle: int, later: float = 0.0) -> datetime:
        """So many seconds after the act of the cycle."""
        return self.begun + timedelta(seconds=CYCLE_SECONDS * cycle + later)

    def weights(self) -> WeightsSet:
        """The weight set in force without any setting."""
        parts = weight_set((), self._settings.rewards, self._settings.constitution)
        version = weights_version(parts)
        return WeightsSet(
            id=consequence_id(self.uid, "run", version, WeightsSet),
            source=source_of(self.agent, self.uid),
            agent=self.agent,
            time=self.begun,
            version=version,
            parts=parts,
        )

    def policy(self) -> PolicySet:
        """What the policy of every act stands for."""
        return PolicySet(
            id=consequence_id(self.uid, "run", "p1", PolicySet),
            source=source_of(self.agent, self.uid),
            agent=self.agent,
            time=self.begun,
            policy="p1",
            mind="openai",
            model="qwen2.5-coder:7b",
            system_prompt="You act in a workspace.",
        )

    def cycle(self, *, hostile: bool = False, silent: str | None = None, **changes: Any) -> list[Event]:
        """Every fact of the next cycle, in the order of a quiet run.

        `hostile`: texts of mind and tool are HOSTILE; `silent`: a scorer that says nothing of this act, so that it
        stays incomplete; `changes`: fields of its `action.taken`.
        """
        number, self.next = self.next, self.next + 1
        before, act = self._acted(number, hostile, changes)
        return [*before, act, *self._scored(act, silent), self._reflected(number)]

    def _acted(self, number: int, hostile: bool, changes: dict[str, Any]) -> tuple[list[Event], ActionTaken]:
        thought = HOSTILE if hostile else f"Of the files only part {number % 9} is not read yet; its tests may tell."
        action, status, output = self._deed(number, hostile)
        raw = _reply(action)
        levels = self._states["needs"].levels
        need = min(levels, key=levels.__getitem__)
        failed = None if status in ("success", "none") else f"the command ended with status 1: {output[:40]}"
        said: dict[str, Any] = {"raw": raw, "raw_length": len(raw), "raw_sha256": whole(raw).sha256}
        formed = ThoughtFormed(
            **self._envelope(ThoughtFormed, number, -0.4),
            thought=whole(thought),
            need=need,
            pressing={name: 0.25 * (1.5 - level) for name, level in levels.items()},
            usage=Usage(input_tokens=400, output_tokens=40),
            model="qwen2.5-coder:7b",
            ms=210.0 + number % 13,
        )
        grounded = ThoughtGrounded(
            **self._envelope(ThoughtGrounded, number, -0.3),
            claims=(
                Claim(claim="there is a file readme.txt", about="workspace", verdict="verified", evidence=thought),
                Claim(claim="all tests pass", about="goal", verdict="refuted", evidence="2 of 9 fail"),
            ),
            memory=("The parser is in parse.py.", thought),
            ms=3.5,
        )
        decided = ActionDecided(
            **self._envelope(ActionDecided, number, -0.1),
            messages=(PromptMessage(role="user", content=f"What do you do now?\n{thought}"),),
            action=action,
            constrained=number % 2 == 0,
            model="qwen2.5-coder:7b",
            finish_reason="stop",
            ms=180.0,
            **said,
        )
        fields: dict[str, Any] = {
            "action": action,
            "outcome": Outcome(status=status, output=cut(output), error=failed, ms=12.0),
            "goals": (
                GoalCheck(
                    goal="tests-pass",
                    statement=HOSTILE if hostile else "All tests in the workspace pass",
                    outcome="partial" if number % 10 == 0 else "neutral",
                    measure=min(1.0, 0.1 * (number // 10)),
                    best=min(1.0, 0.1 * ((number - 1) // 10)),
                ),
            ),
            "needs": levels,
            "thought": thought,
            "memory": ("The parser is in parse.py.",),
            "tools": ("filesystem", "search", "run"),
            "constrained": number % 2 == 0,
            "decoding": DECODING,
            "model": "qwen2.5-coder:7b",
            "usage": Usage(input_tokens=900, output_tokens=80),
            "ms": {"think": 210.0 + number % 13, "ground": 3.5, "decide": 180.0, "act": 12.0},
            **said,
        }
        act = ActionTaken(**(self._envelope(ActionTaken, number, 0.0) | fields | changes))
        return [formed, grounded, decided], act

    def _deed(self, number: int, hostile: bool) -> tuple[Action, Any, str]:
        """(what is done, how it comes out, what the tool says)."""
        if hostile:
            args = {"operation": "write", "path": "notes.txt", "content": HOSTILE}
            return Action(kind="TOOL", valid=True, tool="filesystem", args=args), "success", HOSTILE
        kind = number % 6
        if kind == 0:
            return Action(kind="DO_NOTHING", valid=True, text="resting"), "none", ""
        if kind == 3:
            return Action(kind="REFLECT", valid=True, text="what the failing tests share"), "none", ""
        if kind == 5 and number % 5 == 0:
            return Action(kind="INVALID", valid=False, reason="it is prose, no action"), "none", ""
        if kind == 4:
            command = {"command": "python3 -m unittest"}
            return Action(kind="TOOL", valid=True, tool="run", args=command), "error", "FAILED (failures=2)"
        args = {"operation": "read", "path": f"part{number % 9}.py"}
        return Action(kind="TOOL", valid=True, tool="filesystem", args=args), "success", f"def part{number}(): ..."

    def _scored(self, act: ActionTaken, silent: str | None) -> Iterator[Event]:
        """What the consumers say of the act, and the marks of all of it."""
        witness = next(spec for spec in self._specs if spec.name == "witness")
        facts: list[Event] = [act]
        for spec in self._specs:
            if spec is not witness and spec.name != silent:
                facts += self._handled(spec, act)
        yield from facts[1:]
        scores = [score for fact in facts if isinstance(fact, Scored) for score in score_sets(fact)]
        force = self.weights()
        facts.append(recorded(act, scores, force.parts, weights=force.version))
        # The store records the cycles later: its marks say no place and no time, as those of versions before 0.2.0.
        with mock.patch("conch.witness.chain.recorded_fact", return_value={}):
            for fact in facts:
                yield from self._handled(witness, fact)

    def _handled(self, spec: Any, fact: Event) -> list[Event]:
        if spec.state is None:
            told = spec.handle(fact)
        else:
            self._states[spec.name], told = spec.handle(self._states[spec.name], fact)
        later = self.at(fact.cycle or 0, 0.06 if isinstance(told, NoveltyMeasured) else 0.04)
        return [] if told is None else [told.model_copy(update={"time": later})]

    def _reflected(self, number: int) -> CycleReflected:
        return CycleReflected(
            **self._envelope(CycleReflected, number, 0.1),
            reflection="Reading the tests first saved a step." if number % 5 == 0 else "",
            sleep=4.0,
            ms=1.0,
        )

    def _envelope(self, kind: type[Event], cycle: int, later: float) -> dict[str, Any]:
        action = action_id(self.uid, cycle)
        return {
            "id": cycle_event_id(action, kind),
            "source": source_of(self.agent, self.uid),
            "subject": action,
            "agent": self.agent,
            "cycle": cycle,
            "action_id": action,
            "time": self.at(cycle, later),
            "policy": "p1",
        }


def _reply(action: Action) -> str:
    if action.kind == "TOOL":
        return f"TOOL: {action.tool} {json.dumps(action.args, ensure_ascii=False)}"
    return f"{action.kind}: {action.text}" if action.valid else "I would rather talk about the weather."
