"""The adapters of an agent in a report: curve with the moves of its pointer, gates, replies before and after, costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from conch.experience import ExperienceReader, ScoredSince
from conch.report.models import ReportedAdapter, ReportedCost, ReportedTraining
from conch.views import lineage_shown, read_lineage
from conch_schemas import ExperienceRecorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from conch.training import LineageState, ProbeLine
    from conch.views import GateDecision

MOST_ACTS: Final = 100_000
"""Newest acts that are looked at."""

Replies = Mapping[str, Sequence["ProbeLine"]]


def training_figures(
    store: ExperienceReader,
    agent: str,
    replies: Callable[[str], Replies],
    decisions: Callable[[str], Sequence[GateDecision]],
) -> ReportedTraining | None:
    """What training has made of an agent; None where it had no round. The round that is shown whole is that of the
    adapter that acts, else the newest. `replies`: the probe record of an adapter; `decisions`: of a round's gate.

    Raises StoreError.
    """
    state = read_lineage(store, agent)
    if (newest := state.round) is None:
        return None
    chosen = next((one for one in state.rounds if state.adapter is not None and one.adapter == state.adapter), newest)
    round = chosen.started.round
    state = read_lineage(store, agent, round)
    shown = lineage_shown(
        agent,
        state,
        store.charts.adapters(agent, MOST_ACTS),
        enabled=True,
        round=round,
        replies={} if chosen.adapter is None else replies(chosen.adapter),
        decisions=decisions(round),
    )
    last = store.cycles.last_cycle(agent) or 0
    acts = store.cycles.walk(agent, ScoredSince(cycle=max(0, last - MOST_ACTS)))
    return ReportedTraining(lineage=shown, adapters=tuple(by_adapter(acts)), costs=tuple(_costs(state)))


def by_adapter(acts: Iterable[ExperienceRecorded]) -> Iterator[ReportedAdapter]:
    """The acts of the base and of each adapter, in the order of their first ones; an act in its newest revision."""
    newest: dict[str | None, ExperienceRecorded] = {}
    for act in acts:
        known = newest.get(act.action_id)
        if known is None or known.revision < act.revision:
            newest[act.action_id] = act
    of: dict[str | None, list[ExperienceRecorded]] = defaultdict(list)
    for act in sorted(newest.values(), key=lambda one: one.cycle or 0):
        of[act.decoding.adapter if act.decoding is not None else None].append(act)
    for adapter, own in of.items():
        free = [one for one in own if one.decoding is not None and one.decoding.constraint == "free"]
        yield ReportedAdapter(
            adapter=adapter,
            cycles=len(own),
            mean=sum(one.total for one in own) / len(own),
            free=len(free),
            valid=sum(one.action.valid for one in free),
            succeeded=sum(one.outcome.status == "success" for one in own),
        )


def _costs(state: LineageState) -> Iterator[ReportedCost]:
    for one in state.rounds:
        done = one.finished
        yield ReportedCost(
            generation=one.started.generation,
            method=one.started.method,
            rows=one.started.rows,
            tokens=None if done is None else done.tokens,
            minutes=None if done is None else done.seconds / 60,
            peak_mib=None if done is None else done.figures.get("peak_mib"),
            phase=one.phase,
        )
