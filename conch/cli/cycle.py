"""`conch cycle list | show | diff | replay`: the recorded cycles of an agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cyclopts import App

from conch.cli.common import QUOTED, CommonOptions, emit, table, tell
from conch.cli.options import COMMON, AgentName, Limit, reading, reading_all
from conch.errors import UsageError
from conch.experience import removed_words
from conch.text import safe_text
from conch.views import (
    action_words,
    decoding_words,
    price_words,
    scored_words,
    signed,
    step_words,
    total_ms,
    urgent_need,
    waterfall_cells,
)
from conch_schemas import ActionTaken, ExperienceRecorded, Mark, ScoredPart, trace_id

app = App(name="cycle", help="What the agent did, cycle by cycle.")
app.command("conch.cli.cycle_beside:diff", name="diff", help="Two cycles side by side.")
app.command("conch.cli.cycle_beside:replay", name="replay", help="Ask a mind with a recorded prompt, without acting.")

OUTPUT_LINES = 40
"""Lines of a tool's output that `cycle show` prints; `--json` has all that was kept."""


@app.command(name="list")
def list_(*, limit: Limit = 20, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """The last cycles with their outcomes and totals; of all agents where there are several and none is named."""
    with reading_all(common, agent) as (store, name):
        found = store.cycles.last(name, limit)
    if common.json:
        from conch.views import cycles_shown

        emit(cycles_shown(found))
        return
    columns = ("cycle", "need", "action", "outcome", "total", "ms", "")
    if name is None:
        table(("agent", *columns), [(experience.agent, *_cells(experience)) for experience in found])
    else:
        table(columns, [_cells(experience) for experience in found])


@app.command
def show(cycle: int, /, *, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """One cycle from thought to reward: the words, the scores, the lines that add up to the total.

    Parameters
    ----------
    cycle
        The cycle's number.
    """
    with reading(common, agent) as (store, name):
        experience = store.cycles.get(name, cycle)
        if experience is None:
            removed = removed_words(store.retention.removals(name), name, cycle)
            missing = removed or f"there is no recorded cycle {cycle} of {name}"
            raise UsageError(f"{missing}: conch cycle list shows the last ones")
        marks, act = store.chain.marks_of(name, str(experience.action_id)), store.cycles.act(name, cycle)
    if common.json:
        from conch.views import Cycle, whole_row

        emit(Cycle(cycle=whole_row(experience, marks)))
    else:
        tell("\n".join(story(experience, marks, act)))


def _cells(experience: ExperienceRecorded) -> tuple[object, ...]:
    note = "" if experience.complete else scored_words(experience)
    return (
        experience.cycle,
        urgent_need(experience),
        action_words(experience.action),
        experience.outcome.status,
        signed(experience.total),
        f"{total_ms(experience):.0f}",
        note,
    )


def story(experience: ExperienceRecorded, marks: Sequence[Mark], act: ActionTaken | None) -> Iterator[str]:
    """The cycle for a person, line by line; `act` where it is known. Text is not made safe here: print it with
    `tell`."""
    state = "complete" if experience.complete else scored_words(experience)
    yield f"cycle {experience.cycle} of {experience.agent}, revision {experience.revision}, {state}"
    yield f"  {experience.acted_at:%Y-%m-%d %H:%M:%S %Z}  action {experience.action_id}"
    if (trace := trace_id(experience.traceparent)) is not None:
        yield f"  trace {trace}"
    yield f"  model {experience.model}, policy {experience.policy or 'not known'}"
    yield from _block("thought", experience.thought)
    yield from _grounding(experience)
    yield from _decision(experience)
    yield from _outcome(experience)
    yield from _total(experience)
    yield from _principles(experience, act, marks)
    yield from _needs(experience)
    yield from _block("reflection", experience.reflection)
    yield "marks" if marks else "marks: none yet"
    yield from (f"  {mark.sequence}  {mark.domain} by {mark.origin}: {_flat(mark.response)}" for mark in marks)


def _block(title: str, text: str, most: int = OUTPUT_LINES) -> Iterator[str]:
    """A titled text, indented, so that no line of it can pass for one of ours."""
    if not text:
        return
    lines = safe_text(text).split("\n")
    yield title
    yield from (f"{QUOTED}{line}" for line in lines[:most])
    if len(lines) > most:
        yield f"  … {len(lines) - most} more lines (--json has them)"


def _grounding(experience: ExperienceRecorded) -> Iterator[str]:
    if experience.claims:
        yield "grounding"
    for claim in experience.claims:
        # Of a goal it was checked that it exists, not that it is reached.
        verdict = "exists" if claim.about == "goal" and claim.verdict == "verified" else claim.verdict
        yield f"  {verdict:<8} {claim.about}: {_flat(claim.claim)} ({_flat(claim.evidence)})"
    yield from _block("memory", "\n".join(_flat(note) for note in experience.memory))


def _decision(experience: ExperienceRecorded) -> Iterator[str]:
    action = experience.action
    yield from _block("decision", experience.raw or "(an empty reply)")
    yield f"  parsed   {action.kind}, {'valid' if action.valid else 'not valid'}: {action_words(action, 60)}"
    yield from (f"  {name:<8} {_flat(str(value))}" for name, value in action.args.items())
    if experience.decoding is not None:
        yield f"  decoded  {_flat(decoding_words(experience.decoding))}"
    if price := price_words(experience.cost, experience.usage):
        usage = experience.usage
        yield f"  tokens   {usage.input_tokens:,} in, {usage.output_tokens:,} out: {_flat(price)}"


def _outcome(experience: ExperienceRecorded) -> Iterator[str]:
    outcome = experience.outcome
    code = "" if outcome.exit_code is None else f", exit status {outcome.exit_code}"
    why = "" if outcome.error is None else f": {_flat(outcome.error)}"
    yield from _block(
        f"outcome: {outcome.status}{code}, {outcome.ms:.1f} ms{why}", outcome.output.text or "(no output)"
    )
    for check in experience.goals:
        yield f"  goal {check.goal}: {check.outcome}, {check.measure:.2f} (best {check.best:.2f}) {_flat(check.detail)}"


def _total(experience: ExperienceRecorded) -> Iterator[str]:
    yield "scores"
    yield from (f"  {_score(score)}" for score in experience.scores if score.weight > 0.0)
    if beside := [score for score in experience.scores if not score.weight > 0.0]:
        yield "scores that have no weight: watched, or bearing on the whole total"
        yield from (f"  {_score(score)}" for score in beside)
    yield f"total, coverage {experience.coverage:.2f}"
    lines = experience.breakdown
    *bars, whole = waterfall_cells([line.amount for line in lines])
    for line, bar in zip(lines, bars, strict=True):
        yield f"  {_flat(step_words(line.step)):<24} {signed(line.amount, 4)}  {bar}  {_flat(line.why)}"
    yield f"  {'sum':<24} {signed(experience.total, 4)}  {whole}".rstrip()


def _score(score: ScoredPart) -> str:
    value = score.status if score.value is None else signed(score.value)
    weight = f"× {score.weight:.3f}" if score.weight > 0.0 else " " * 7
    return f"{_flat(score.component):<14} {value:>14} {weight}  {_flat(score.scorer)}: {_flat(score.explanation)}"


def _principles(experience: ExperienceRecorded, act: ActionTaken | None, marks: Sequence[Mark]) -> Iterator[str]:
    from conch.rewards import unjudged_reason  # only here: lists do without the rules
    from conch.views import compliance, principles, sealed_principles

    if (why := unjudged_reason(experience)) is not None:
        yield f"principles: there is nothing to judge by. {why}"
        return
    scores, judged = principles(act, marks), compliance(sealed_principles(marks))
    if judged is not None:
        yield f"principles, {judged.words}"
    for name, score in scores.items():
        shown = f"{'–':>14}  nothing to judge by" if score is None else f"{score:>14.3f}"
        yield f"  {_flat(name):<14} {shown}"


def _needs(experience: ExperienceRecorded) -> Iterator[str]:
    before, after = experience.needs_before or {}, experience.needs_after or {}
    if before:
        yield "needs"
    for need, level in before.items():
        now = after.get(need, level)
        yield f"  {_flat(need):<14} {level:.3f} → {now:.3f}  {signed(now - level)}"


def _flat(text: str) -> str:
    return safe_text(text, one_line=True)
