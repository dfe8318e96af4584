"""What a state was, in words, by an act that was decided in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from conch.experience import ExperienceReader
from conch.needs import most_pressing
from conch.text import safe_text
from conch_schemas import ActionTaken
from conch_services.dashboard.compare.differences import SameState
from conch_services.dashboard.compare.subjects import ComparedSubject

MOST_GOALS: Final = 2
"""Goals of a state that are named."""
MOST_TOOLS: Final = 6
"""Tools of a state that are named."""
WIDTH: Final = 80
"""Characters of a goal or a tool's name."""


class StateWords(NamedTuple):
    """What `Decoding.state_key` is made from, as far as it is recorded."""

    need: str
    """The most pressing one; empty: no need was known."""
    goals: str
    tools: str
    before: str
    """Status of the outcome of the act before; empty: there was none, or it is not stored."""


def words_of_states(
    reader: ExperienceReader,
    subjects: Sequence[ComparedSubject],
    states: Sequence[SameState],
    priorities: Mapping[str, float],
) -> dict[str, StateWords]:
    """The words of each of these states, by its key; one whose acts are removed has none."""
    found = {}
    for one in states:
        agent, cycle = next(
            (of.name.agent, mine.example)
            for of, mine in zip(subjects, one.deeds, strict=True)
            if mine.example is not None
        )
        act = reader.cycles.act(agent, cycle)
        if act is not None:
            found[one.state] = state_words(act, reader.cycles.act(agent, cycle - 1) if cycle else None, priorities)
    return found


def state_words(act: ActionTaken, before: ActionTaken | None, priorities: Mapping[str, float]) -> StateWords:
    """The words of the state that this act was decided in; `before`: the act before it."""
    return StateWords(
        most_pressing(act.needs, priorities) if act.needs and priorities else "",
        _listed(sorted(check.statement for check in act.goals), MOST_GOALS, "; "),
        _listed(sorted(act.tools), MOST_TOOLS, ", "),
        before.outcome.status if before is not None else "",
    )


def _listed(some: Sequence[str], most: int, between: str) -> str:
    named = [text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…" for text in map(_plain, some[:most])]
    return between.join([*named, *([f"{len(some) - most} more"] if len(some) > most else [])])


def _plain(text: str) -> str:
    return safe_text(text, one_line=True)
