"""`conch reward compare`: two rules, or two versions of one, over the acts that both scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from conch.cli.common import CommonOptions, emit, table, tell
from conch.cli.options import COMMON, AgentName, reading_all
from conch.cli.reward.history import When, since
from conch.errors import UsageError
from conch.experience import BackfillReader, RecordedScore, ScoredSince, ScorerVersion, precedence
from conch.text import instead
from conch.views import ComparedAct, ComparedScore, ComparedSide, Comparison, range_words, signed

if TYPE_CHECKING:
    from conch.rewards import Agreement

Most = Annotated[int, Parameter(validator=Number(gte=0), help="Cycles to show, those that differ most.")]


@dataclass(frozen=True)
class ComparedRule:
    """One side of the comparison: a rule in one version."""

    component: str
    scorer: str
    version: str | None
    """The version with all its builds, unless it names one; None: for each act the one that counts."""
    range: tuple[float, float]
    """The union of the ranges of its versions."""
    said: Mapping[int, RecordedScore]
    """Scores by act."""

    @property
    def name(self) -> str:
        """The name as on the command line."""
        who = self.component if self.component == self.scorer else f"{self.scorer}/{self.component}"
        return who if self.version is None else f"{who}@{self.version}"

    @property
    def coverage(self) -> float | None:
        """scored ÷ (said − not applicable); None where nothing was applicable."""
        applicable = sum(one.status != "not_applicable" for one in self.said.values())
        return sum(one.value is not None for one in self.said.values()) / applicable if applicable else None


def compare(
    a: str, b: str, /, *, limit: Most = 10, since_: When = None, agent: AgentName = None, common: CommonOptions = COMMON
) -> None:
    """How far two rules agree over the acts that both scored, and the cycles where they differ most.

    Without a version the score of each act is meant that counts in its total. VERSION 1 means its builds too (1+07c2).

    Parameters
    ----------
    a
        A component, NAME or NAME@VERSION; SCORER/NAME where several score it.
    b
        Another, or another version of it.
    """
    from conch.rewards import agreement

    began = since(since_)
    with reading_all(common, agent) as (store, named):
        known = store.backfill.scorers()
        sides = [_side(store.backfill, known, text, named, began) for text in (a, b)]
        both = _both(*sides)
        values = [[float(pair[side].value or 0.0) for pair in both] for side in (0, 1)]
        widest = max(high - low for low, high in (side.range for side in sides))
        found = agreement(values[0], values[1], widest)
        apart = [_row(store.backfill, sides, pair) for pair in _furthest(both, limit)]
    if common.json:
        a_side, b_side = (_told(side) for side in sides)
        emit(Comparison(a=a_side, b=b_side, **asdict(found), apart=tuple(apart)))
    else:
        _show(sides, found, apart)


def _side(
    scores: BackfillReader, known: Sequence[ScorerVersion], text: str, agent: str | None, began: ScoredSince
) -> ComparedRule:
    """The rule meant by `NAME`, `NAME@VERSION`, `SCORER/NAME`. Raises UsageError, with the names that there are."""
    name, at, version = text.partition("@")
    meant = (  # a rule's own name goes before a component that others score too, and that before a scorer's
        [one for one in known if f"{one.scorer}/{one.component}" in (name, f"{name}/{name}")]
        or [one for one in known if name == one.component]
        or [one for one in known if name == one.scorer]
    )
    if not meant:
        advice = instead(name, (one.component for one in known))
        raise UsageError(f"nothing was scored by {name[:100]!r}; {advice}")
    pairs = sorted({(one.component, one.scorer) for one in meant})
    if len(pairs) > 1:
        names = [f"{scorer}/{component}" for component, scorer in pairs]
        raise UsageError(f"{name} is said in {len(pairs)} ways: name one of {', '.join(names)}")
    there = sorted((one.version for one in meant), key=precedence)
    named = _named(version, there) if at else there
    if not named:
        raise UsageError(f"{name} has no scores of version {version[:70]!r}: the newest are {', '.join(there[-5:])}")
    [(component, scorer)] = pairs
    limits = [one.range for one in meant if one.version in named]
    said = scores.said(agent, component, scorer, named[0] if len(named) == 1 else None, began)
    newest_of: dict[int, RecordedScore] = {}
    for one in sorted(said, key=lambda one: precedence(one.version)):  # of builds the last published counts
        if one.version in named:
            newest_of[one.act] = one
    ends = min(low for low, _ in limits), max(high for _, high in limits)
    return ComparedRule(component, scorer, version if at else None, ends, newest_of)


def _named(version: str, there: Sequence[str]) -> list[str]:
    """The version itself, else the builds of it."""
    return [one for one in there if one == version] or [one for one in there if one.partition("+")[0] == version]


def _both(a: ComparedRule, b: ComparedRule) -> list[tuple[RecordedScore, RecordedScore]]:
    """The scores of the acts that both sides scored, by agent and cycle."""
    pairs = [(one, b.said[act]) for act, one in a.said.items() if act in b.said]
    scored = [pair for pair in pairs if pair[0].value is not None and pair[1].value is not None]
    return sorted(scored, key=lambda pair: (pair[0].agent, pair[0].cycle, pair[0].act))


def _furthest(
    both: Sequence[tuple[RecordedScore, RecordedScore]], most: int
) -> list[tuple[RecordedScore, RecordedScore]]:
    """Those that differ most, the newest first of equals; those that do not differ are not among them."""
    apart = [pair for pair in both if pair[0].value != pair[1].value]
    return sorted(apart, key=lambda pair: (-_distance(pair), -pair[0].cycle, pair[0].agent))[:most]


def _distance(pair: tuple[RecordedScore, RecordedScore]) -> float:
    return abs(float(pair[1].value or 0.0) - float(pair[0].value or 0.0))


def _row(
    scores: BackfillReader, sides: Sequence[ComparedRule], pair: tuple[RecordedScore, RecordedScore]
) -> ComparedAct:
    words = [scores.explanation(one, side.component, side.scorer) for one, side in zip(pair, sides, strict=True)]
    a, b = (
        ComparedScore(value=float(one.value or 0.0), version=one.version, explanation=why)
        for one, why in zip(pair, words, strict=True)
    )
    return ComparedAct(agent=pair[0].agent, cycle=pair[0].cycle, a=a, b=b)


def _told(side: ComparedRule) -> ComparedSide:
    return ComparedSide(
        component=side.component,
        scorer=side.scorer,
        version=side.version,
        range=side.range,
        said=len(side.said),
        coverage=side.coverage,
    )


def _show(sides: Sequence[ComparedRule], found: Agreement, apart: Sequence[ComparedAct]) -> None:
    for letter, side in zip("AB", sides, strict=True):
        covered = "nothing it applies to" if side.coverage is None else f"coverage {side.coverage:.2f}"
        tell(f"{letter}  {side.name}: {len(side.said):,} acts, {covered}, range {range_words(*side.range)}")
    tell(f"scored by both: {found.count:,}")
    if found.count:
        tell(
            f"equal (within a twentieth of the wider range): {found.equal:.1%}, of the same sign: {found.same_sign:.1%}"
        )
        told = "beyond all numbers" if found.mean_difference is None else f"{found.mean_difference:+.4f}"
        tell(f"mean difference, B less A: {told}")
    value = f"none: {found.why_none}" if found.rank_correlation is None else signed(found.rank_correlation)
    tell(f"rank correlation (Spearman): {value}")
    if not apart:
        return
    agents = {one.agent for one in apart}
    columns = (*(("agent",) if len(agents) > 1 else ()), "cycle", "A", "B", "A says", "B says")
    table(columns, [_cells(one, many=len(agents) > 1) for one in apart], wraps=["A says", "B says"])


def _cells(one: ComparedAct, *, many: bool) -> tuple[object, ...]:
    values = (signed(side.value) for side in (one.a, one.b))
    words = (side.explanation for side in (one.a, one.b))
    return (*((one.agent,) if many else ()), one.cycle, *values, *words)
