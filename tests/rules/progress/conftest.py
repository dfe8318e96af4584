"""Facts of task episodes, and what the fold over them said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conch.rewards.progress import EpisodeLogRow, ProgressState, ProgressUpdate, fold
from conch_schemas import Score, TaskProgressed


def fact(number: int, episode: str = "e", *, act: bool = True, **data: Any) -> TaskProgressed:
    """How a task stood, said of the act of that number, or of none."""
    about = {"action_id": f"a{number}", "cycle": number} if act else {}
    return TaskProgressed(id=f"p{number}", source="conch/echo/x", agent="echo", episode=episode, **about, **data)


def folded(facts: Iterable[Any], state: ProgressState | None = None) -> tuple[ProgressState, list[ProgressUpdate]]:
    """The state after these facts, and what was said of each."""
    state, told = state or ProgressState(weighed=True), []
    for said in facts:
        state, one = fold(state, said)
        told.append(one)
    return state, told


def scores_of(told: Iterable[ProgressUpdate]) -> list[Score]:
    """Those that were said, in order."""
    return [one.score for one in told if one.score is not None]


def rows_of(told: Iterable[ProgressUpdate]) -> list[EpisodeLogRow]:
    """Those that were said, in order."""
    return [one.row for one in told if one.row is not None]
