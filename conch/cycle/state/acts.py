"""What an agent remembers of its last acts: as many, and as much of each, as its prompts have room for. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from conch.cycle.state.rewards import with_short_arguments
from conch.text import cut
from conch_schemas import Action, ActionTaken

RECENT: Final = 10
"""Acts that are remembered at least."""
MOST_ACTS: Final = 300
"""Acts that are remembered at most, however short they are."""
RECENT_OUTPUT: Final = 2000
"""Characters of an output's beginning, and about as many of an argument, that the memory keeps."""
RESULT_BYTES: Final = 8 * 1024
"""Bytes of an output that are kept at least of the last WHOLE_RESULTS acts, encoded: beginning and end."""
WHOLE_RESULTS: Final = 3
RESULT_SHARE: Final = 0.25
"""Share of the room that one output may take where that is more."""
MOST_ROOM: Final = 160 * 1024
"""Most bytes of the last acts, whatever the window of the model is: the memory is written in one piece, beside the
messages that wait and the rewards of those acts, and the bus takes 1 MiB."""
RECENT_ERROR: Final = 500
"""Characters of an error, and of an invalid reply, that the memory keeps."""
RECENT_ARGS: Final = 10
"""Arguments of an invalid call that the memory keeps; a valid one has no more than its tool takes."""
THOUGHT: Final = 300
"""Characters of the thought behind an act that the memory keeps."""
FIXED_SIZE: Final = 300
"""Bytes that an act takes beside its texts, about: names, braces."""


class RecentAct(BaseModel):
    """One of the last acts."""

    model_config = ConfigDict(frozen=True)

    cycle: int
    action: Action
    """Its arguments, each with about RECENT_OUTPUT characters at most."""
    status: str
    output: str
    """The output's beginning."""
    error: str = ""
    result: str = ""
    """The output's beginning and end, where `output` has not all of it and there is room for it."""
    raw: str = ""
    """The beginning of the reply, where it is no valid action."""
    thought: str = Field(default="", exclude_if=lambda thought: not thought)
    """The beginning of the thought that it came from."""

    @property
    def size(self) -> int:
        """Bytes that it takes as JSON, about; the output once, as a prompt shows it."""
        texts = [self.result or self.output, self.error, self.raw, self.thought, self.action.text or ""]
        texts += [value if isinstance(value, str) else str(value) for value in self.action.args.values()]
        encoded = (json.dumps(text, ensure_ascii=False).encode(errors="replace") for text in texts)
        return FIXED_SIZE + sum(len(text) - 2 for text in encoded)

    @property
    def short(self) -> RecentAct:
        """It with the output's beginning alone."""
        return self.model_copy(update={"result": ""}) if self.result else self


def remembered_act(event: ActionTaken, room: int) -> RecentAct:
    """An act as it is remembered. `room`: bytes that the last acts may take together."""
    assert event.cycle is not None
    outcome, output = event.outcome, event.outcome.output.text
    most = max(RESULT_BYTES, int(RESULT_SHARE * min(room, MOST_ROOM)))
    return RecentAct(
        cycle=event.cycle,
        action=_short(event.action),
        status=outcome.status,
        output=output[:RECENT_OUTPUT],
        error=(outcome.error or event.action.reason or "")[:RECENT_ERROR],
        result=cut(output, most).text if len(output) > RECENT_OUTPUT else "",
        raw="" if event.action.valid else event.raw[:RECENT_ERROR],
        thought=event.thought[:THOUGHT],
    )


def with_act(recent: Sequence[RecentAct], act: RecentAct, room: int) -> tuple[RecentAct, ...]:
    """The last acts with one more, the oldest first.

    The last WHOLE_RESULTS have their whole results, and RECENT are kept. Of earlier acts as many are kept as fit into
    `room` bytes, the newest first, at most MOST_ACTS: with their results in the first half of it, then shortened.
    """
    room = min(room, MOST_ROOM)
    kept: list[RecentAct] = []
    used = 0
    for place, one in enumerate(reversed((*recent, act))):
        if place >= (MOST_ACTS if room else RECENT):
            break
        shown = one if place < WHOLE_RESULTS or (room and used + one.size <= room // 2) else one.short
        used += shown.size if room else 0
        if place >= RECENT and used > room:
            break
        kept.append(shown)
    return tuple(reversed(kept))


def _short(action: Action) -> Action:
    if not action.valid and len(action.args) > RECENT_ARGS:
        action = action.model_copy(update={"args": dict(list(action.args.items())[:RECENT_ARGS])})
    return with_short_arguments(action, RECENT_OUTPUT)
