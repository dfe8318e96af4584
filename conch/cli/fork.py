"""`conch fork`: other decisions for a recorded prompt, each tried and scored in a copy of the workspace as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from conch.cli.common import CommonOptions, emit, quiet, tell, warn
from conch.cli.options import COMMON, AgentName, meant
from conch.cli.people_facts import names_in, several
from conch.text import safe_text
from conch.views import action_words, signed

if TYPE_CHECKING:
    from conch.cli.reward.history import RecordedHistory
    from conch.config import Settings
    from conch.forks import Fork
    from conch_schemas import ExperienceRecorded, ForkScored, Score, ScoredPart

OUTPUT_WIDTH = 200
"""Characters of a candidate's output or error that are printed; `--json` has all that was kept."""

MindKind = Annotated[
    str | None,
    Parameter(name="--mind", help="Kind of mind: reflex, openai, local, transformers, scripted, or a package's."),
]
Model = Annotated[str | None, Parameter(name="--model", help="Name of its model.")]
Script = Annotated[str | None, Parameter(name="--script", help="File of replies of the mind scripted, one a line.")]
Temperature = Annotated[
    float | None,
    Parameter(name="--temperature", validator=Number(gte=0, lte=2), help="Sampling temperature; 0: the likeliest."),
]


async def fork(
    cycle: int,
    /,
    *,
    candidates: Annotated[int, Parameter(validator=Number(gte=1, lte=64), help="Candidates to make.")] = 4,
    seed: Annotated[int, Parameter(validator=Number(gte=0), help="Seed of the first; the others follow it.")] = 1,
    mind: MindKind = None,
    model: Model = None,
    temperature: Temperature = None,
    script: Script = None,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Make other decisions for the prompt of a cycle, and try each in a copy of the workspace as it was then.

    A candidate is scored by format, execution and goal and recorded as `fork.scored`. It is no act: totals, needs and
    the workspace stay as they are. The same fork with the same seeds is made once. With a script, seeds are its lines,
    from 0.

    Parameters
    ----------
    cycle
        The cycle's number.
    """
    from conch.cli.reward.history import history
    from conch.forks import Fork, ForkRequest, RecordedCycle, fork_minds
    from conch.values import in_force
    from conch.views import forks_shown

    quiet()
    home, settings = common.existing(), with_mind(common, mind, model, temperature, script)
    async with history(common) as found:
        name = meant(agent, found.reader.agents(), names_in(home, settings))
        if name is None:
            raise several(found.reader.agents())
        recorded = RecordedCycle.find(found.reader, home, name, cycle)
        recorded.kept()
        own = settings.model_copy(update={"agent": name})
        async with fork_minds(own, home, name) as minds:
            request = ForkRequest(recorded, tuple(range(seed, seed + candidates)))
            one = Fork(request, minds, own, in_force(settings.values))
            known = one.own(found.reader.forks.of_cycle(name, cycle))
            if not common.json:
                tell("\n".join(_recorded(recorded.experience)))
            made = await _make(found, one, known, common)
    rows = [known[at] for at in sorted(known)]
    if common.json:
        emit(forks_shown(name, cycle, rows, made))
    elif made < len(rows):
        tell(f"{made} candidates made, {len(rows) - made} were recorded before")


def with_mind(
    common: CommonOptions, mind: str | None, model: str | None, temperature: float | None, script: str | None
) -> Settings:
    """The settings with another mind that decides, where one is named. Raises ConfigError."""
    given = {"kind": mind, "model": model, "temperature": temperature, "script": script}
    named: dict[str, object] = {key: value for key, value in given.items() if value is not None}
    if not named:
        return common.settings()
    if mind is not None:
        named |= {"think": None, "decide": None, "fallbacks": ()}
    return common.settings({"mind": named})


async def _make(found: RecordedHistory, one: Fork, known: dict[int, ForkScored], common: CommonOptions) -> int:
    """Make the candidates that are missing in `known`, publish each, and have the store take them in; how many."""
    from conch_schemas import encode, subject_of

    made, upto = 0, 0
    missing = one.missing(known.values())
    if not common.json:
        for at in sorted(known):
            tell("\n".join(_lines(known[at])))
    async for candidate in one.candidates(missing):
        stored = await found.bus.publish(subject_of(candidate), encode(candidate), id=candidate.id)
        known[candidate.seed], made, upto = candidate, made + 1, max(upto, stored.seq)
        if not common.json:
            tell("\n".join(_lines(candidate)))
    if made and not await found.take_in(upto):
        warn("the candidates are published; the store takes them in when it runs")
    return made


def _recorded(experience: ExperienceRecorded) -> Iterator[str]:
    scores = [score for score in experience.scores if score.component in ("format", "execution", "goal")]
    yield f"cycle {experience.cycle} of {experience.agent}: {action_words(experience.action, 60)}"
    yield f"  {experience.outcome.status}  {_scores(scores)}"


def _lines(candidate: ForkScored) -> Iterator[str]:
    ran = "" if candidate.executed or not candidate.why_not else f", not executed: {_flat(candidate.why_not)}"
    yield f"seed {candidate.seed}: {action_words(candidate.action, 60)}"
    yield f"  {candidate.outcome.status}  {_scores(candidate.scores)}  total {signed(candidate.total)}{ran}"
    said = candidate.outcome.error or candidate.outcome.output.text
    if said.strip() and not ran:
        yield f"  | {_flat(said)[:OUTPUT_WIDTH]}"


def _scores(scores: list[ScoredPart] | tuple[Score, ...]) -> str:
    return "  ".join(
        f"{score.component} {score.status.replace('_', ' ') if score.value is None else signed(score.value)}"
        for score in scores
    )


def _flat(text: str) -> str:
    return safe_text(text, one_line=True)
