"""Marks outlive the version that took them: an event with fewer or more optional fields is still the sealed one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final, get_args

import pytest
import rfc8785
from pydantic import BaseModel

from conch.witness import SEALED_KINDS, content_hash, is_event
from conch.witness.facts import LATER_FIELDS
from conch_schemas import Event, JsonObject, decode, event_type, wire_form
from conch_schemas.envelope import ENVELOPE

FIRST: Final = {
    "action.taken": (
        "action.args action.reason action.text action.tool constrained decoding.adapter decoding.constraint "
        "decoding.logprob decoding.prompt_sha256 decoding.propensity decoding.seed decoding.state_key "
        "decoding.temperature decoding.tokens decoding.top_p effect.checks effect.checks.changed_since "
        "effect.checks.goal effect.checks.ran effect.context effect.information effect.information.finished_file "
        "effect.information.lines effect.information.new effect.kind effect.lines effect.lines.added "
        "effect.lines.moved effect.lines.new effect.lines.removed effect.lines_changed effect.need_events "
        "effect.noise effect.opened effect.paths effect.previous_path effect.skills_on_offer effect.target episode "
        "goals goals.detail goals.failed_before memory message.sender message.session message.signals "
        "message.stopping_suggestion outcome.answered outcome.error outcome.exit_code outcome.ms progress.phase "
        "progress.roles progress.switch_committed progress.test_pass_rate progress.tokens_used progress.topology "
        "step terminal thought tools usage usage.input_tokens usage.output_tokens"
    ),
    "reward.assigned": "principles.evidence scores.explanation scores.value",
    "needs.changed": "beside.explanation beside.value changes drift score score.explanation score.value",
    "novelty.measured": "beside.explanation beside.value events score.explanation score.value",
    "alarm.raised": "component",
    "message.received": "sender",
    "message.sent": "answers",
    "answer.rated": "session text",
    "goal.set": (
        "by goal.check.command goal.check.contains goal.check.equals goal.check.exit_status goal.check.kind "
        "goal.deadline goal.parent goal.priority"
    ),
    "goal.accepted": "by why",
    "goal.reached": "",
    "goal.dropped": "why",
    "agent.paused": "",
    "agent.resumed": "",
    "act.approved": "by why",
    "act.denied": "by why",
    "review.decided": "corrected preferred reason text",
    "person.forgotten": (
        "actions events marks marks.evidence marks.facts marks.links marks.principles marks.tags marks.values part"
    ),
    "weights.set": ("parts.cap parts.deadline parts.role parts.target parts.task_weight parts.threshold why"),
    "policy.set": "adapter base constraint evidence generation thinks values",
    "cycle.reflected": "cost model usage usage.input_tokens usage.output_tokens",
    "fork.scored": (
        "action.args action.declared_effect action.reason action.text action.tool constrained cost decoding "
        "decoding.adapter decoding.constraint decoding.logprob decoding.prompt_sha256 decoding.propensity "
        "decoding.seed decoding.state_key decoding.temperature decoding.tokens decoding.top_p effect effect.checks "
        "effect.checks.changed_since effect.checks.goal effect.checks.ran effect.context effect.information "
        "effect.information.finished_file effect.information.lines effect.information.new effect.kind effect.lines "
        "effect.lines.added effect.lines.moved effect.lines.new effect.lines.removed effect.lines_changed "
        "effect.need_events effect.noise effect.opened effect.paths effect.previous_path effect.skills_on_offer "
        "effect.target goals goals.accepted goals.detail goals.failed_before outcome.answered outcome.error "
        "outcome.exit_code outcome.ms outcome.proposed scores.explanation scores.value usage usage.input_tokens "
        "usage.output_tokens why_not"
    ),
    "training.started": "replay_rows seen settings",
    "training.progressed": "eta eval_loss grad_norm kl learning_rate loss margin tokens_per_second",
    "training.finished": "figures tokens",
    "training.failed": "again",
    "adapter.gated": "bound conditions.candidate conditions.incumbent conditions.limit difference",
    "adapter.tried": "difference high low pairs why",
    "adapter.refused": "",
    "adapter.promoted": "evidence round",
    "adapter.rolled_back": "",
    "adapter.probed": "ms why",
    "adapter.shadowed": (
        "action.args action.declared_effect action.reason action.text action.tool constrained cost "
        "decoding.adapter decoding.constraint decoding.logprob decoding.prompt_sha256 decoding.propensity "
        "decoding.seed decoding.state_key decoding.temperature decoding.tokens decoding.top_p round usage "
        "usage.input_tokens usage.output_tokens"
    ),
}
"""The optional fields that each sealed type of events had when its first mark was taken. It never grows: a field that
comes later is named in LATER_FIELDS."""

SCORE: Final = {"component": "c", "value": 0.5, "range": [-1, 1], "status": "scored", "scorer": "s", "version": "1"}
GOAL: Final = {"id": "g", "statement": "All tests pass.", "check": {"kind": "tests"}}
ADAPTER: Final = "a" * 64
ROUND: Final = {"round": ADAPTER, "attempt": 1}
REPLY: Final = {
    "raw": "TOOL: shell",
    "raw_length": 11,
    "raw_sha256": "0" * 64,
    "action": {"kind": "TOOL", "valid": True, "tool": "shell"},
    "model": "none",
}
DATA: Final[dict[str, JsonObject]] = {
    "action.taken": {
        "action": {"kind": "TOOL", "valid": True, "tool": "shell"},
        "raw": "TOOL: shell",
        "raw_length": 11,
        "raw_sha256": "0" * 64,
        "outcome": {"status": "success", "output": {"text": "a", "length": 1, "sha256": "0" * 64}},
        "goals": [
            {"goal": name, "statement": "s", "outcome": "partial", "measure": 0.5, "best": 0.25} for name in ("g", "h")
        ],
        "needs": {"curiosity": 0.5},
        "model": "none",
        "ms": {"think": 1.5},
    },
    "reward.assigned": {"scorer": "s", "version": "1", "scores": [SCORE]},
    "needs.changed": {"before": {"a": 0.5}, "after": {"a": 0.25}, "most_pressing": "a", "score": SCORE},
    "novelty.measured": {
        "fingerprint": "f",
        "skill": "shell",
        "novelty": 0.5,
        "new_information": True,
        "learning_progress": 0.5,
        "success_rate": 0.5,
        "exploration_bonus": 0.5,
        "drives": dict.fromkeys(("curiosity", "competence", "autonomy", "social", "intrinsic"), 0.5),
        "entropy": 0.5,
        "score": SCORE,
    },
    "alarm.raised": {"alarm": "collapse", "active": True, "value": 1.0, "threshold": 0.5, "window": 5, "what": "w"},
    "message.received": {"text": "hello"},
    "message.sent": {"text": "hello"},
    "answer.rated": {"message": "m", "rating": "satisfied"},
    "goal.set": {"goal": GOAL},
    "goal.accepted": {"goal": "g"},
    "goal.reached": {"goal": "g", "statement": "s"},
    "goal.dropped": {"goal": "g"},
    "review.decided": {"row": "0" * 64, "format": "sft", "reviewer": "ann", "number": 1, "decision": "approved"},
    "person.forgotten": {"request": "r"},
    "weights.set": {
        "version": "w1",
        "parts": [{"component": "format", "weight": 1.0, "range": [-1, 1], "scorer": "reward"}],
    },
    "policy.set": {"mind": "reflex", "model": "none", "system_prompt": "s"},
    "cycle.reflected": {"reflection": "r", "sleep": 1.0, "ms": 1.5},
    "fork.scored": {
        "fork": "f",
        "seed": 1,
        "mind": "reflex",
        **REPLY,
        "finish_reason": "stop",
        "workspace": "0" * 64,
        "executed": True,
        "outcome": {"status": "success", "output": {"text": "a", "length": 1, "sha256": "0" * 64}},
        "scores": [SCORE],
        "weights": "w1",
        "total": 0.5,
        "coverage": 0.5,
        "ms": {"decide": 1.5},
    },
    "training.started": {
        **ROUND,
        "method": "sft",
        "generation": 1,
        "base": "b",
        "snapshot": "s",
        "rows": 5,
        "why": "person",
    },
    "training.progressed": {**ROUND, "step": 5, "steps": 10, "epoch": 0.5},
    "training.finished": {**ROUND, "adapter": ADAPTER, "bytes": 5, "seconds": 1.5},
    "training.failed": {**ROUND, "why": "w"},
    "adapter.gated": {
        "round": ADAPTER,
        "adapter": ADAPTER,
        "incumbent": None,
        "verdict": "passed",
        "conditions": [{"name": "format", "holds": True, "why": "w"}],
        "number": 1,
        "alpha": 0.05,
        "pairs": 5,
        "evidence": "e",
    },
    "adapter.tried": {
        "round": ADAPTER,
        "adapter": ADAPTER,
        "incumbent": None,
        "stage": "canary",
        "verdict": "better",
        "cycle_from": 5,
    },
    "adapter.refused": {"round": ADAPTER, "adapter": ADAPTER, "at": "gate", "why": "w"},
    "adapter.promoted": {
        "adapter": ADAPTER,
        "previous": None,
        "generation": 1,
        "move": 1,
        "by": "trial",
        "why": "w",
    },
    "adapter.rolled_back": {
        "adapter": ADAPTER,
        "to": None,
        "generation": 1,
        "move": 1,
        "trigger": "worse",
        "why": "w",
    },
    "adapter.probed": {"adapter": ADAPTER, "engine": "e", "served_as": "s", "proven": True},
    "adapter.shadowed": {
        "adapter": ADAPTER,
        **REPLY,
        "finish_reason": "stop",
        "ms": 1.5,
        "decoding": {"engine": "e", "model": "m"},
    },
}
"""The required fields of each sealed type, where it has any."""
DECODED: Final = {"decoding": {"engine": "openai", "model": "m"}}
PARTS: Final[dict[str, JsonObject]] = {
    "action.taken": {**DECODED, "effect": {"checks": [{"goal": "g"}]}},
    "fork.scored": {**DECODED, "effect": {"checks": [{"goal": "g"}]}},
    "adapter.shadowed": DECODED,
}
"""Optional parts that have gained fields, without these."""


def hash_of(wire: JsonObject) -> str:
    """The content of a mark over exactly these fields."""
    return hashlib.sha256(rfc8785.dumps(wire)).hexdigest()


def event_of(kind: type[Event], **parts: object) -> Event:
    """An event of this type, each optional field at its default but for `parts`."""
    envelope = {"specversion": "1.0", "id": "i", "source": "conch/echo/e", "agent": "echo", "cycle": 1}
    wire = {
        **envelope,
        "type": event_type(kind),
        "time": "2026-01-01T00:00:00Z",
        "data": DATA.get(kind.TYPE, {}) | parts,
    }
    return decode(json.dumps(wire).encode())


def optional_fields(model: type[BaseModel], place: str = "") -> Iterator[str]:
    """The paths of a model's optional fields, and of those of its parts."""
    for name, field in model.model_fields.items():
        if place or name not in ENVELOPE:
            if not field.is_required():
                yield place + name
            yield from of_parts(field.annotation, f"{place}{name}.")


def of_parts(annotation: Any, place: str) -> Iterator[str]:
    """The optional fields of the models that a type names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from optional_fields(annotation, place)
    for part in get_args(annotation):
        yield from of_parts(part, place)


def holders(data: JsonObject, path: list[str]) -> list[JsonObject]:
    """The objects at the end of a path; none where the event has no such part."""
    found: list[Any] = [data]
    for step in path:
        found = [part for held in found for part in (held[step] if isinstance(held[step], list) else [held[step]])]
        found = [part for part in found if part is not None]
    return found


def forms(event: Event) -> list[JsonObject]:
    """The event's wire form as each version wrote it, the newest first."""
    wire = json.loads(wire_form(event))
    versions = [json.loads(json.dumps(wire))]
    for name, _ in reversed(LATER_FIELDS.get(event_type(type(event)), ())):
        *path, key = name.split(".")
        for part in holders(wire["data"], path):
            del part[key]
        versions.append(json.loads(json.dumps(wire)))
    return versions


@pytest.mark.parametrize("kind", SEALED_KINDS, ids=lambda kind: kind.TYPE)
def test_each_optional_field_that_came_after_the_first_marks_is_known(kind: type[Event]) -> None:
    """A new optional field of a sealed event, or of a part of it, stands at the end of LATER_FIELDS: without it, marks
    of before would not verify."""
    later = [name for name, _ in LATER_FIELDS.get(event_type(kind), ())]

    parts = tuple(f"{name}." for name in later)  # what a later part brought with it came and goes with the part
    known = {*FIRST[kind.TYPE].split(), *later}
    assert {name for name in {*optional_fields(kind)} ^ known if not name.startswith(parts)} == set()


@pytest.mark.parametrize("kind", SEALED_KINDS, ids=lambda kind: kind.TYPE)
def test_a_mark_of_any_version_holds_in_any_form_of_the_event(kind: type[Event]) -> None:
    """Sealed by an older or a newer version than the one that wrote the bytes, or read and written again: it is the
    event."""
    event = event_of(kind)

    assert is_event(wire_form(event), content_hash(event))
    for sealed in forms(event):
        for written in forms(event):
            body = json.dumps(written).encode()

            assert is_event(body, hash_of(sealed))
            assert is_event(wire_form(decode(body)), hash_of(sealed))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, (*path, key))


def changes(wire: JsonObject) -> Iterator[bytes]:
    """The event with one value or one name changed, for each; also values that Python takes as equal."""
    for *path, last in filter(None, leaves(wire)):
        others: tuple[Any, ...] = ("changed", 7, 0, 1, True, False, None, [], {})
        for changed in others:
            copy = json.loads(json.dumps(wire))
            part = copy
            for step in path:
                part = part[step]
            same = rfc8785.dumps(part[last]) == rfc8785.dumps(changed)
            part[last] = changed
            if not same:
                yield json.dumps(copy).encode()
        if isinstance(last, str):
            copy = json.loads(json.dumps(wire))
            part = copy
            for step in path:
                part = part[step]
            part[f"{last}_"] = part.pop(last)
            yield json.dumps(copy).encode()


@pytest.mark.parametrize("kind", SEALED_KINDS, ids=lambda kind: kind.TYPE)
def test_a_changed_value_is_another_event_in_each_form(kind: type[Event]) -> None:
    """Whatever the version that sealed it, no other value passes, nor a field by another name."""
    event = event_of(kind)
    newest, *_, oldest = [*forms(event), forms(event)[-1]]

    for sealed, written in ((newest, newest), (oldest, oldest), (oldest, newest), (newest, oldest)):
        content = hash_of(sealed)
        passed = [body for body in changes(written) if is_event(body, content)]

        assert passed == []


@pytest.mark.parametrize("kind", SEALED_KINDS, ids=lambda kind: kind.TYPE)
def test_a_later_field_has_the_default_of_its_model(kind: type[Event]) -> None:
    """LATER_FIELDS says what a reader of today adds."""
    plain, with_parts = (
        json.loads(wire_form(event_of(kind, **parts)))["data"] for parts in ({}, PARTS.get(kind.TYPE, {}))
    )

    for name, default in LATER_FIELDS.get(event_type(kind), ()):
        *path, key = name.split(".")
        data = with_parts if path else plain
        assert all(json.dumps(part[key]) == json.dumps(default) for part in holders(data, path))
        assert holders(data, path)


def test_a_field_that_an_optional_part_gained_is_known() -> None:
    """An act with a decoding, sealed before it could say of how many replies that could not be read: it is the act, and
    one with such a count is another."""
    [kind] = (kind for kind in SEALED_KINDS if kind.TYPE == "action.taken")
    wire = next(
        form for form in forms(event_of(kind, **PARTS["action.taken"])) if "unread" not in form["data"]["decoding"]
    )
    content = hash_of(wire)

    assert is_event(wire_form(decode(json.dumps(wire).encode())), content)
    assert is_event(json.dumps(wire).encode(), content)
    wire["data"]["decoding"]["unread"] = 1
    assert not is_event(json.dumps(wire).encode(), content)


def test_a_value_in_a_later_field_was_not_sealed_without_it() -> None:
    """With a value in a field that the sealing version did not know, the event is another one."""
    goal = {"goal": "g", "statement": "s", "outcome": "partial", "measure": 0.5, "best": 0.25}
    [kind] = (kind for kind in SEALED_KINDS if kind.TYPE == "action.taken")
    wire = json.loads(wire_form(event_of(kind)))
    del wire["data"]["progress"], wire["data"]["team"]
    wire["data"]["goals"] = [goal | {"failed_before": False, "detail": ""}]
    content = hash_of(wire)

    wire["data"]["goals"][0]["accepted"] = False

    assert not is_event(json.dumps(wire).encode(), content)
