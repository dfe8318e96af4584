"""`conch train list` and `show`: the rounds of a lineage, and one of them whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from conch.cli.common import QUOTED, CommonOptions, emit, say, table, tell
from conch.cli.options import COMMON, AgentName, reading
from conch.errors import ConchError

if TYPE_CHECKING:
    from conch.data import Manifest
    from conch.views import LineageDetail, LineageShown

SHOWN = 12
"""Digits of a digest that are printed."""
LAST = 4000
"""Newest acts that are looked at."""
MOST_SETS = 200
"""Newest data sets whose manifests are read."""


def list_(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """The rounds of an agent's adapters, the newest first: what each trained on, its gate, its trial, how it ended."""
    shown = _document(common, agent, None)
    if common.json:
        emit(shown)
        return
    of = "" if shown.adapter is None else f"generation {shown.generation}, adapter {shown.adapter[:SHOWN]},"
    say(f"{of or 'the base alone'} acts for {shown.agent} (move {shown.move}); its lineage is {shown.phase}")
    if shown.rounds:
        rows = [
            (
                one.round[:SHOWN],
                one.generation,
                one.method,
                one.rows,
                one.phase,
                (one.adapter or "-")[:SHOWN],
                one.trial,
            )
            for one in shown.rounds
        ]
        table(("round", "generation", "method", "rows", "phase", "adapter", "trial"), rows)
    for move in shown.moves:
        say(f"move {move.move}: {move.kind} {move.adapter[:SHOWN]} by {move.by}. {move.why}")


def show(
    round: Annotated[str | None, Parameter(help="A round, an adapter or a generation; none: the newest.")] = None,
    /,
    *,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """A round whole: its data, its curve, the gate's table with each condition, its trials, replies before and after.

    Parameters
    ----------
    round
        Its digest or the beginning of it, its adapter's, or a generation.
    """
    shown = _document(common, agent, round or "")
    if common.json:
        emit(shown)
        return
    detail = shown.round
    assert detail is not None
    _tell(detail)


def _document(common: CommonOptions, agent: str | None, named: str | None) -> LineageShown:
    """The lineage; `named`: the round that is shown whole, empty for the newest; None: any, there may be none."""
    from conch.rounds import round_named
    from conch.training import AdapterShelf
    from conch.views import lineage_shown, read_lineage

    home, settings = common.existing(), common.settings()
    with reading(common, agent) as (store, name):
        state = read_lineage(store, name)
        chosen = state.round if named is None else round_named(state, named or None)
        digest = None if chosen is None else chosen.started.round
        state = read_lineage(store, name, digest)
        acts = store.charts.adapters(name, LAST) if state.rounds else []
    adapter = None if chosen is None else chosen.adapter
    return lineage_shown(
        name,
        state,
        acts,
        enabled=settings.training.enabled,
        round=digest,
        replies={} if adapter is None else AdapterShelf(home.adapters).replies(adapter),
        data_sets=_data_sets(home.path / "data"),
    )


def _data_sets(folder: Path) -> list[tuple[str, Manifest | None]]:
    from conch.data import read_manifest, snapshots_in

    found: list[tuple[str, Manifest | None]] = []
    for path in reversed(snapshots_in(folder)[-MOST_SETS:]):
        try:
            found.append((path.name, read_manifest(path)))
        except ConchError:
            found.append((path.name, None))
    return found


def _tell(detail: LineageDetail) -> None:
    one = detail.summary
    say(f"round {one.round} (number {one.number}, attempt {one.attempt}, {one.phase})")
    base = detail.base or "no base"
    say(f"{one.method} for generation {one.generation} of {base}, begun by {detail.why}, {one.started}")
    data = detail.data
    left = ", ".join(f"{count} {reason}" for reason, count in sorted(data.left_out.items(), key=lambda item: -item[1]))
    say(f"data {data.name or data.snapshot[:SHOWN]}: {data.rows} rows{f'; left out: {left}' if left else ''}")
    if detail.figures:
        say("figures: " + ", ".join(f"{name} {value:.4g}" for name, value in sorted(detail.figures.items())))
    for point in detail.curve[-1:]:
        say(f"step {point.step} of {one.steps}: loss {_number(point.loss)}, on eval {_number(point.eval_loss)}")
    if one.adapter is not None:
        say(f"adapter {one.adapter}")
    if (gate := detail.gate) is not None:
        figures = f"difference {_number(gate.difference)}, at least {_number(gate.bound)} at alpha {gate.alpha:.2g}"
        say(f"gate {gate.number}: {gate.verdict} over {gate.pairs} states, {figures}; evidence {gate.evidence[:SHOWN]}")
        rows = [(_HOLDS[row.holds], row.name, row.why) for row in gate.conditions]
        table(("", "condition", "why"), rows, wraps=("why",))
    for trial in detail.trials:
        say(f"{trial.stage} since cycle {trial.since}: {trial.verdict or 'runs'}. {trial.why}".rstrip())
    if one.why:
        say(f"{one.phase}: {one.why}")
    for reply in detail.replies:
        tell("\n".join(QUOTED + line for line in reply.prompt.splitlines()[-3:]))
        say(f"  before: {_flat(reply.before)}")
        say(f"  after:  {_flat(reply.after)}")


_HOLDS = {True: "holds", False: "fails", None: "unknown"}


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def _flat(text: str) -> str:
    from conch.text import safe_text

    return safe_text(text, one_line=True)
