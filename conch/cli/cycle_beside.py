"""`conch cycle diff | replay`: two cycles side by side, and a recorded prompt that is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from conch.cli.common import CommonOptions, emit, quiet, table, tell, warn
from conch.cli.fork import MindKind, Model, Script, Temperature, with_mind
from conch.cli.options import COMMON, AgentName, reading
from conch.text import safe_text
from conch.views import action_words, signed

if TYPE_CHECKING:
    from conch.config import Settings
    from conch.cycle.decide import DecisionResult
    from conch.forks import RecordedCycle
    from conch.home import Home
    from conch.rules import RuleInfo
    from conch.views import CycleReplay, ReplayedScore
    from conch_schemas import ActionTaken, Score

WIDTH = 60
"""Characters of a text in a column."""
NOTHING_RAN = "Nothing was executed."


def diff(one: int, other: int, /, *, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Two cycles side by side: the sections of their prompts, decisions, outcomes, scores, needs and totals.

    Parameters
    ----------
    one
        The number of a cycle.
    other
        The number of another one.
    """
    from conch.forks import RecordedCycle
    from conch.views import cycle_diff

    with reading(common, agent) as (store, name):
        home = common.existing()
        found = [RecordedCycle.find(store, home, name, number) for number in (one, other)]
    sections = [_sections(home, each) for each in found]
    shown = cycle_diff(found[0].experience, found[1].experience, (sections[0], sections[1]))
    if common.json:
        emit(shown)
        return
    rows = [
        ("" if row.same else "≠", f"{row.section}: {row.name}", _cell(row.one), _cell(row.other)) for row in shown.rows
    ]
    table(("", "", f"cycle {one}", f"cycle {other}"), rows)


async def replay(
    cycle: int,
    /,
    *,
    mind: MindKind = None,
    model: Model = None,
    temperature: Temperature = None,
    script: Script = None,
    rules: Annotated[list[Path] | None, Parameter(negative="", help="Python file of rules; repeatable.")] = None,
    seed: Annotated[int, Parameter(validator=Number(gte=0), help="Seed of the mind; of a script the line.")] = 0,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Ask a mind with the prompt of a cycle, and score the act of then and the new reply by every rule of now.

    Nothing is executed, published or stored. A rule that keeps a state or looks at earlier acts is left out: conch
    reward test scores with it.

    Parameters
    ----------
    cycle
        The cycle's number.
    """
    from conch.cycle.decide import answered
    from conch.errors import UsageError
    from conch.forks import RecordedCycle, fork_minds, recorded_prompt
    from conch.minds import ScriptEnded

    quiet()
    settings = with_mind(common, mind, model, temperature, script)
    with reading(common, agent) as (store, name):
        home = common.existing()
        found = RecordedCycle.find(store, home, name, cycle)
    prompt, source = recorded_prompt(found, home)
    settings = settings.model_copy(update={"agent": name})
    async with fork_minds(settings, home, name) as minds:
        asked = minds.of(seed)
        try:
            assert prompt.registry is not None
            decision = await answered(asked, prompt, prompt.registry)
        except ScriptEnded as error:
            raise UsageError(f"--seed {seed}, the number of a line from 0: {error}") from None
        finally:
            await asked.close()
    from conch.views import CycleReplay

    shown = CycleReplay(
        agent=name,
        cycle=cycle,
        prompt=source,
        mind=asked.kind,
        model=decision.completion.model,
        seed=seed,
        recorded_raw=found.act.raw,
        recorded_action=found.act.action,
        raw=decision.completion.text,
        action=decision.action,
        ms=decision.completion.ms,
        scores=tuple(await _scores(found, decision, settings, [str(file) for file in rules or ()])),
    )
    if common.json:
        emit(shown)
    else:
        _tell(shown)


def _tell(shown: CycleReplay) -> None:
    tell(f"cycle {shown.cycle} of {shown.agent}, asked again: {shown.mind} {shown.model}, seed {shown.seed}")
    tell(f"  recorded  {action_words(shown.recorded_action, WIDTH)}")
    tell(f"  now       {action_words(shown.action, WIDTH)}")
    cells = [
        (one.component, one.scorer, *map(_score, (one.recorded, one.now, one.replayed)), one.why)
        for one in shown.scores
    ]
    table(("component", "scorer", "recorded", "by the rules of now", "new reply", ""), cells)


def _score(value: float | None) -> str:
    return "–" if value is None else signed(value)


def _cell(value: str | float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:+.3f}"
    return safe_text(str(value), one_line=True)[:WIDTH]


def _sections(home: Home, found: RecordedCycle) -> dict[str, int]:
    """The tokens of each section of a decision's prompt; none where they are not known."""
    from conch.cycle.state.sent import sent_prompts

    if found.decision is not None:
        return {part.name: part.tokens for part in found.decision.parts}
    sent = sent_prompts(home.agent_dir(found.agent), found.cycle)
    return {part.name: part.tokens for one in sent if one.purpose == "decide" for part in one.parts}


async def _scores(
    found: RecordedCycle, decision: DecisionResult, settings: Settings, files: Sequence[str]
) -> list[ReplayedScore]:
    """Every score that the act has, and every one that the rules of now give it or the new reply."""
    from conch.consumer.plugins import discover, reserved
    from conch.rewards import builtin_scores
    from conch.views import ReplayedScore

    there = discover(files, taken=reserved(settings))
    for broken in there.broken:
        warn(f"set aside: {broken.origin}: {broken.why}")
    new = _new_act(found.act, decision)
    now = {score.component: score for score in builtin_scores(found.act, settings.rewards)}
    replayed = {
        score.component: score if score.component == "format" else _unscored(score)
        for score in builtin_scores(new, settings.rewards)
    }
    for rule in there.rules:
        if not rule.stateful and rule.window is None:
            now[rule.name] = await _by_rule(rule, found.act, settings)
            replayed[rule.name] = await _by_rule(rule, new, settings)
    recorded = {score.component: score for score in found.experience.scores}
    rows = []
    for name in dict.fromkeys((*recorded, *now)):
        before, of_now, of_new = recorded.get(name), now.get(name), replayed.get(name)
        said = of_new or of_now
        why = said.explanation if said is not None else "It rests on what came before, or is made elsewhere."
        scorer = before.scorer if before is not None else of_now.scorer if of_now is not None else ""
        rows.append(
            ReplayedScore(
                component=name,
                scorer=scorer,
                recorded=before.value if before is not None else None,
                now=of_now.value if of_now is not None else None,
                replayed=of_new.value if of_new is not None else None,
                why=why,
            )
        )
    return rows


async def _by_rule(rule: RuleInfo, act: ActionTaken, settings: Settings) -> Score:
    from conch.cli.reward.trying import scored

    [score] = [score async for _, score, _ in scored(rule, [act], settings, 1)]
    return score


def _unscored(score: Score) -> Score:
    return score.model_copy(update={"value": None, "status": "not_applicable", "explanation": NOTHING_RAN})


def _new_act(act: ActionTaken, decision: DecisionResult) -> ActionTaken:
    """The act with the new reply, of which nothing was executed."""
    from conch.text import cut
    from conch_schemas import Outcome

    raw = cut(decision.completion.text)
    return act.model_copy(
        update={
            "action": decision.action,
            "raw": raw.text,
            "raw_length": raw.length,
            "raw_sha256": raw.sha256,
            "outcome": Outcome(status="none", output=cut("")),
            "goals": (),
            "effect": None,
            "constrained": decision.completion.constrained,
            "decoding": decision.decoding,
            "model": decision.completion.model,
            "message": None,
        }
    )
