"""Rows for a cold start: the form of a valid call of each tool, made from the registry and not from an act. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from conch.actions import Argument, Registry, ToolSpec, parse, render
from conch.data.row import Lineage, Row, make_row
from conch_schemas import Action

SYSTEM: Final = (
    'Answer with exactly one line: TOOL: name(argument="value"), DO_NOTHING: reason for inaction, or REFLECT: topic to '
    "think about. The tools:"
)
"""Begins the system prompt of a synthetic row; the list of tools follows, as a run's prompt has it."""
_VALUES: Final[dict[str, JsonValue]] = {
    "string": "text",
    "integer": 1,
    "number": 0.5,
    "boolean": True,
    "array": [],
    "object": {},
}
"""The value of an argument by its type: it shows the form, not a sensible use."""


def synthetic_rows(registry: Registry) -> Iterator[Row]:
    """A row of SFT for each tool, and for each choice of its first argument that has choices, by name. The same tools
    give the same rows. All are in train, and belong to no state."""
    for spec in sorted(registry, key=lambda spec: spec.name):
        for args in _calls(spec):
            action = Action(kind="TOOL", valid=True, tool=spec.name, args=args)
            reply = render(action)
            if not parse(reply, registry).valid:
                continue
            said = " and ".join(f"{name} {value!r}" for name, value in args.items()) or "no argument"
            columns: dict[str, JsonValue] = {
                "prompt": [
                    {"role": "system", "content": f"{SYSTEM}\n{registry.describe()}"},
                    {"role": "user", "content": f"Call {spec.name} with {said}."},
                ],
                "completion": [{"role": "assistant", "content": reply}],
            }
            lineage: Lineage = {
                "agent": "",
                "action_ids": (),
                "state_key": "",
                "prompt_hash": "",
                "skill": action.skill,
                "origin": "synthetic",
            }
            yield make_row("sft", columns, **lineage)


def _calls(spec: ToolSpec) -> Iterator[dict[str, JsonValue]]:
    needed = [one for one in spec.arguments if one.required]
    chosen = next((one for one in needed if one.choices), None)
    for choice in chosen.choices if chosen else ("",):
        yield {one.name: choice if one is chosen else _value(one) for one in needed}


def _value(argument: Argument) -> JsonValue:
    return argument.choices[0] if argument.choices else _VALUES[argument.type]
