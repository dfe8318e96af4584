"""The round that a person names: by its digest, by its adapter's, or by its generation."""

from __future__ import annotations

from typing import Final

from conch.errors import UsageError
from conch.training import LineageState, TrainingRound

LEAST: Final = 4
"""Fewest digits of a digest that name something."""


def round_named(state: LineageState, name: str | None) -> TrainingRound:
    """The round of this name; None: the newest. Of a generation the newest attempt at it.

    Raises UsageError where there is none, or digits fit several.
    """
    if name is None:
        if state.round is None:
            raise UsageError("nothing was trained yet: conch train run begins a round")
        return state.round
    if name.isdigit() and len(name) < LEAST:
        of = [one for one in state.rounds if one.started.generation == int(name)]
        if not of:
            raise UsageError(f"there is no generation {name}: conch train list shows them")
        return of[-1]
    found = [
        one
        for one in state.rounds
        if len(name) >= LEAST and (one.started.round.startswith(name) or (one.adapter or "").startswith(name))
    ]
    if len(found) != 1:
        many = f"{len(found)} rounds and adapters begin with {name!r}: give more digits" if found else ""
        raise UsageError(many or f"no round and no adapter is called {name!r}: conch train list shows them")
    return found[0]


def adapter_named(state: LineageState, name: str) -> str:
    """The digest of the adapter that is named. Raises UsageError where there is none."""
    round = round_named(state, name)
    if round.adapter is None:
        raise UsageError(f"the round {round.started.round[:12]} has made no adapter: it is {round.phase}")
    return round.adapter
