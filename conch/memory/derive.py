"""The memories of an event: episode, note and facts of an experience, lesson of a reflection, a person's message. Pure.

An episode is a short text; the whole of the act stays in the experience store, under the cycle that the memory names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from conch.memory.models import MOST_TEXT, Memory, MemoryKind, SourceAct, memory_id
from conch.memory.scoring import GOAL_REACHED, importance_of
from conch.text import safe_text, well_formed
from conch_schemas import Action, CycleReflected, Event, ExperienceRecorded, MessageReceived

REMEMBERED_KINDS: tuple[type[Event], ...] = (ExperienceRecorded, CycleReflected, MessageReceived)
"""The events that memories come from."""
ARGUMENT = 160
"""Most characters of an argument in an episode."""
RESULT = 240
"""Most characters of a thought, an output or an error in an episode."""
FACTS = 4
"""Most facts of one act."""


def memories_of(event: Event) -> tuple[Memory, ...]:
    """The memories of an event, with ids derived from it: the same event gives the same memories. Others have none."""
    if isinstance(event, ExperienceRecorded):
        return tuple(_of_act(event))
    if isinstance(event, CycleReflected):
        return _said(event, "lesson", event.reflection)
    if isinstance(event, MessageReceived):
        return _said(event, "message", event.text)
    return ()


def _said(event: Event, kind: MemoryKind, text: str) -> tuple[Memory, ...]:
    if not (kept := _text(text)):
        return ()
    source = SourceAct(event.agent, event.id, event.cycle)
    return (Memory(memory_id(event.id, kind), kind, kept, importance_of(kind), event.time.timestamp(), source),)


def _of_act(event: ExperienceRecorded) -> Iterator[Memory]:
    at = event.acted_at.timestamp()
    cause = event.causation_id or event.id  # the act: the same for every revision of its experience

    def memory(kind: MemoryKind, text: str, importance: float, index: int = 0) -> Memory:
        source = SourceAct(event.agent, cause, event.cycle)
        return Memory(memory_id(cause, kind, index), kind, text, importance, at, source, event.revision)

    if note := _note(event):
        yield memory("note", note, importance_of("note"))
    elif event.action.valid and event.action.kind == "TOOL" and (text := _text(_episode(event))):
        yield memory("episode", text, importance_of("episode", event.total))
    checked = [claim.evidence for claim in event.claims if claim.about == "workspace" and claim.verdict != "unknown"]
    for index, evidence in enumerate(dict.fromkeys(filter(None, map(_text, checked[:FACTS])))):
        yield memory("fact", evidence, importance_of("fact"), index)
    for index, check in enumerate(event.goals):
        if check.outcome == "achieved" and (reached := _text(f"Goal reached: {check.statement}")):
            yield memory("fact", reached, GOAL_REACHED, FACTS + index)


def _note(event: ExperienceRecorded) -> str:
    """The text that the act has noted; empty where it has not."""
    action = event.action
    if action.tool != "notes" or action.args.get("operation") != "remember" or event.outcome.status != "success":
        return ""
    return _text(str(action.args.get("text", "")))


def _episode(event: ExperienceRecorded) -> str:
    """One line: the thought, the call, the result, the reward."""
    came = event.outcome.error or event.outcome.output.text
    result = f"{event.outcome.status}: {_short(came, RESULT)}" if came.strip() else event.outcome.status
    thought = f"{_short(event.thought, RESULT)} | " if event.thought.strip() else ""
    return f"{thought}{_call(event.action)} | {result} | reward {event.total:+.3f}"


def _call(action: Action) -> str:
    shown = ", ".join(f"{name}={_short(_plain(value), ARGUMENT)}" for name, value in action.args.items())
    return f"{action.tool}({shown})"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str, most: int) -> str:
    """`text` on one line, its beginning in at most `most` characters."""
    flat = " ".join(text[: 4 * most].split())
    return flat if len(flat) <= most else f"{flat[: most - 2]} …"


def _text(text: str) -> str:
    """`text` as it is stored: no control characters and direction marks, MOST_TEXT characters at most."""
    return safe_text(well_formed(text[:MOST_TEXT])).strip()
