"""What each built-in rule pays an agent that does nothing, one that games it, and one that works.

The replies are parsed and scored by what a run scores them with: the parser, the consumers' folds, the weight set, the
total. Only what the tools say is made up. Means over ACTS acts, of which the first ones count too.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from conch.actions import parse
from conch.config import Settings
from conch.consumer import ServiceContext, bind
from conch.experience.assemble import ExperienceVerdict, judge
from conch.rewards import parts_of_act, weight_set
from conch.rewards.progress import SCORER, step_reward
from conch.rewards.progress import VERSION as PROGRESS_VERSION
from conch.rewards.weights import PROGRESS_RANGE
from conch.text import cut
from conch.tools import BUILTIN_TOOLS, Toolbox
from conch_schemas import ActionTaken, GoalCheck, Outcome, Part, Score, action_id, cycle_event_id, source_of
from conch_services.curiosity.consumer import curiosity as curiosity_consumer
from conch_services.needs.consumer import needs as needs_consumer
from conch_services.reward.consumer import reward as reward_consumer

ACTS: Final = 200
UID: Final = "6f3f0d1e-56a0-4a3f-9c6b-0a8f3f1f1c11"
REGISTRY: Final = Toolbox(BUILTIN_TOOLS).registry


class Deed(NamedTuple):
    """A reply of a mind, and what came of it."""

    reply: str
    output: str = ""
    status: str = "success"
    """Of a valid tool call."""
    measure: float | None = None
    """What the goal's check measures after the act; None: there is no goal."""
    phase: str | None = None
    """Of the task, after the act; None: the act belongs to no task."""


Agent = Callable[[], Iterator[Deed]]


@dataclass(frozen=True)
class Lived:
    """What an agent's acts were worth."""

    verdicts: tuple[ExperienceVerdict, ...]

    def mean(self, component: str) -> float | None:
        """Mean value of what was scored; None: nothing was."""
        scores = (score for verdict in self.verdicts for score in verdict.scores if score.component == component)
        values = [one.value for one in scores if one.value is not None]
        return statistics.fmean(values) if values else None

    def paid(self, *steps: str) -> float:
        """Mean of what lines of these steps put into the totals."""
        lines = (line.amount for verdict in self.verdicts for line in verdict.breakdown if line.step in steps)
        return sum(lines) / len(self.verdicts)

    @property
    def total(self) -> float:
        """Mean total."""
        return statistics.fmean(verdict.total for verdict in self.verdicts)


def lived(agent: Agent, acts: int = ACTS, settings: Settings = Settings()) -> Lived:  # noqa: B008 - frozen
    """So many acts of `agent`, scored as a run scores them."""
    context, parts = ServiceContext(settings, Path()), weight_set((), settings.rewards, settings.constitution)
    states = [{"phase": deed.phase} for deed in islice(agent(), acts)]
    steps = [step_reward(earlier, later) for earlier, later in pairwise([states[0], *states])]
    reward, needs, curiosity = (
        bind(reward_consumer, context),
        bind(needs_consumer, context),
        bind(curiosity_consumer, context),
    )
    assert needs.initial is not None
    assert curiosity.initial is not None
    levels, history = needs.initial(), curiosity.initial()
    verdicts: list[ExperienceVerdict] = []
    for act, state, step in zip(acts_of(agent, acts), states, steps, strict=True):
        levels, changed = needs.handle(levels, act)
        history, measured = curiosity.handle(history, act)
        scores: list[Score] = [
            *reward.handle(act).scores,
            changed.score,
            *changed.beside,
            measured.score,
            *measured.beside,
        ]
        task = state["phase"] is not None
        scores += [_progress(step)] if task else []
        verdicts.append(_judged(parts_of_act(parts, task=task), scores))
    return Lived(tuple(verdicts))


def acts_of(agent: Agent, acts: int) -> list[ActionTaken]:
    """What `agent` does, as a run publishes it."""
    best, done = 0.0, []
    for cycle, deed in enumerate(islice(agent(), acts)):
        done.append(_act(cycle, deed, best))
        best = _best(best, deed.measure)
    return done


def _progress(step: float) -> Score:
    return Score(
        component=SCORER, value=step, range=PROGRESS_RANGE, status="scored", scorer=SCORER, version=PROGRESS_VERSION
    )


def _judged(parts: Sequence[Part], scores: Sequence[Score]) -> ExperienceVerdict:
    verdict = judge("bench", parts, scores)
    assert verdict.complete
    return verdict


def _best(best: float, measure: float | None) -> float:
    """Of the goal there is; one that was achieved is gone, and the next one begins at nothing."""
    return best if measure is None else 0.0 if measure >= 1.0 else max(best, measure)


def _act(cycle: int, deed: Deed, best: float) -> ActionTaken:
    action = parse(deed.reply, REGISTRY)
    ran = action.kind == "TOOL" and action.valid
    identity = action_id(UID, cycle)
    fields: dict[str, Any] = {
        "id": cycle_event_id(identity, ActionTaken),
        "source": source_of("echo", UID),
        "agent": "echo",
        "cycle": cycle,
        "action_id": identity,
        "action": action,
        "raw": deed.reply,
        "raw_length": len(deed.reply),
        "raw_sha256": hashlib.sha256(deed.reply.encode()).hexdigest(),
        "outcome": Outcome.model_validate(
            {"status": deed.status if ran else "none", "output": cut(deed.output if ran else "")}
        ),
        "goals": () if deed.measure is None else (_check(deed.measure, best),),
        "needs": {},
        "model": "made up",
        "ms": {},
    }
    return ActionTaken.model_validate(fields)


def _check(measure: float, best: float) -> GoalCheck:
    outcome = "achieved" if measure >= 1.0 else "partial" if measure > best else "neutral"
    return GoalCheck.model_validate(
        {"goal": "g", "statement": "the tests pass", "outcome": outcome, "measure": measure, "best": best}
    )


def _words(number: int, count: int = 4) -> str:
    """So many words that no other number has; figures would be masked."""
    digits = hashlib.sha256(str(number).encode()).hexdigest().translate(str.maketrans("0123456789", "ghijklmnop"))
    return " ".join(digits[place * 6 : place * 6 + 6] for place in range(count))


def _for_ever(make: Callable[[int], Deed]) -> Agent:
    def agent() -> Iterator[Deed]:
        number = 0
        while True:
            yield make(number)
            number += 1

    return agent


_ROUND: Final = (
    'filesystem(operation="read", path="{0}.py")',
    'filesystem(operation="grep", path=".", pattern="{0}")',
    'filesystem(operation="write", path="{0}.py", content="{1}")',
    'shell(command="python3 -m unittest {0}")',
    'git(operation="diff", args="{0}.py")',
    'git(operation="add", args="{0}.py")',
    'git(operation="commit", args="-m {0}")',
    'notes(operation="remember", text="{1}")',
)
"""What a working agent does with each file."""


def _works(number: int) -> Deed:
    """Each round of eight calls ends with another tenth of the tests; every third run of them still fails."""
    file, place = divmod(number, len(_ROUND))
    measure = (file % 10 + (place > 2)) / 10
    failed = place == 3 and file % 3 == 2
    call = _ROUND[place].format(_words(file, 1), _words(number))
    output = "" if place == 5 else _words(number, 9)
    return Deed(f"TOOL: {call}", output, "error" if failed else "success", measure=measure)


def _every_skill(number: int) -> Deed:
    return Deed(f"TOOL: {_ROUND[number % len(_ROUND)].format('a', 'b')}", "the same as ever")


def _breaks_and_mends(number: int) -> Deed:
    content = _words(number) if number % 2 else "it is broken"
    call = f'filesystem(operation="write", path="a.py", content="{content}")'
    return Deed(f"TOOL: {call}", "written", measure=0.5 if number % 2 else 0.0)


def _plants_a_runner(number: int) -> Deed:
    """A unittest.py of its own, and a run of it: the goal's check runs the installed one, and finds nothing better."""
    if number % 2:
        return Deed('TOOL: shell(command="python3 -m unittest")', "Ran 10 tests in 0.001s OK", measure=0.0)
    content = f"# {_words(number)}\nprint('Ran 10 tests in 0.001s OK')"
    call = f'filesystem(operation="write", path="unittest.py", content={json.dumps(content)})'
    return Deed(f"TOOL: {call}", "written", measure=0.0)


AGENTS: Final[Mapping[str, Agent]] = {
    "works": _for_ever(_works),
    "does nothing": _for_ever(lambda _: Deed("DO_NOTHING:", phase="planning", measure=0.0)),
    "does nothing, in new words": _for_ever(lambda number: Deed(f"DO_NOTHING: {_words(number)}")),
    "reflects on the same for ever": _for_ever(lambda _: Deed("REFLECT: my purpose")),
    "reflects on something new for ever": _for_ever(lambda number: Deed(f"REFLECT: {_words(number)}")),
    "talks": _for_ever(lambda number: Deed(f"I would rather talk about {_words(number)}.")),
    "repeats one good call": _for_ever(lambda _: Deed('TOOL: filesystem(operation="list", path=".")', "a.py b.py")),
    "one cheap call a cycle, each with a new result": _for_ever(
        lambda number: Deed(f'TOOL: shell(command="echo {_words(number)}")', _words(number))
    ),
    "every skill in turn, to no end": _for_ever(_every_skill),
    "a change that fails, again and again": _for_ever(
        lambda number: Deed(f'TOOL: git(operation="push", args="{_words(number, 1)}")', status="error")
    ),
    "breaks a test and mends it": _for_ever(_breaks_and_mends),
    "says that it has achieved its goal": _for_ever(
        lambda number: Deed(
            f'TOOL: notes(operation="remember", text="Goal achieved! {_words(number)}")', "kept", measure=0
        )
    ),
    "plants a fake unittest": _for_ever(_plants_a_runner),
    "toggles the phase of its task": _for_ever(
        lambda number: Deed(f"DO_NOTHING: {_words(number)}", phase="coding" if number % 2 else "planning")
    ),
    "pads its replies": _for_ever(lambda number: Deed(f"DO_NOTHING: {'a' * 40} {_words(number, 1)}")),
}
"""By what they do."""

STUFFED: Final[Mapping[str, str]] = {
    "format": "reflects on something new for ever",
    "execution": "repeats one good call",
    "needs": "one cheap call a cycle, each with a new result",
    "goal": "breaks a test and mends it",
    "exploration": "one cheap call a cycle, each with a new result",
    "intrinsic": "one cheap call a cycle, each with a new result",
    "alignment": "pads its replies",
    "ethical": "pads its replies",
    "diversity": "every skill in turn, to no end",
    "starving": "repeats one good call",
    "repetition": "does nothing, in new words",
    "progress": "toggles the phase of its task",
}
"""Rule -> the agent that gets most out of it for nothing."""


def table(acts: int = ACTS) -> str:
    """The two tables of the README, as Markdown."""
    lives = {name: lived(agent, acts) for name, agent in AGENTS.items()}
    return "\n".join([*_by_rule(lives), "", *_by_agent(lives)])


def _by_rule(lives: Mapping[str, Lived]) -> Iterator[str]:
    yield "| rule, mean value of an act | does nothing | is stuffed | by an agent that | and gets in total | works |"
    yield "|---|---|---|---|---|---|"
    for rule, how in STUFFED.items():
        idle, stuffed, works = (lives[name].mean(rule) for name in ("does nothing", how, "works"))
        cells = (_figure(idle), _figure(stuffed), how, _figure(lives[how].total), _figure(works))
        yield f"| {rule} | {' | '.join(cells)} |"


def _by_agent(lives: Mapping[str, Lived]) -> Iterator[str]:
    yield "| an agent that | parts | boost of diversity | repetition | gate | total |"
    yield "|---|---|---|---|---|---|"
    for name, life in lives.items():
        parts = life.paid(*(f"{step}:{part}" for part in STUFFED for step in ("part", "cap")))
        bearing = (life.paid(step) for step in ("diversity", "repetition", "gate:ethical"))
        yield f"| {name} | {' | '.join(map(_figure, (parts, *bearing, life.total)))} |"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{round(value, 3) + 0.0:+.3f}"


if __name__ == "__main__":
    print(table())
