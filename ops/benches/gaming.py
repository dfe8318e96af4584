"""What the built-in rules pay an agent that rests, agents that stuff them, and one that works; printed by `rewards`.

Every agent lives in a notebook of its own (see `lives`). All but the working one are scripts of what they do; that one
is the embedded mind with the fixed list of templates `goals` (see `policies`).
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from string import ascii_lowercase
from typing import Final

from lives import HELD_OUT, Agent, Lived, lived, replies
from policies import write_policy

from conch.minds import Completion, Prompt, Situation
from conch.minds.reflex import ReflexMind
from conch.workspace.samples import TIDEPOOL
from conch_schemas import ExperienceRecorded

ACTS: Final = 200
SEEDS: Final = 5
REFLECTS: Final = 7
"""Cycles from one reflection to the next of an agent that looks after its needs: curiosity falls by 0.02 in a cycle,
and a reflection raises it by 0.15."""
FILES: Final = TIDEPOOL.files
NOTES: Final = tuple(f"notes/{path.name}" for path in sorted(FILES.glob("notes/*.md")))
WORDS: Final = tuple(sorted({word for note in NOTES for word in (FILES / note).read_text().split() if word.isalpha()}))
"""The words of the notes: what is written with them looks like text."""


def _call(tool: str, **args: str) -> str:
    return f"TOOL: {tool}({', '.join(f'{name}={json.dumps(value)}' for name, value in args.items())})"


def _files(operation: str, path: str, **more: str) -> str:
    return _call("filesystem", operation=operation, path=path, **more)


def _shell(command: str) -> str:
    return _call("shell", command=command)


class WorkingMind:
    """Works on its goals by the fixed list `goals`, once for each set of goals. Where that is done it reads, reflects
    as often as curiosity needs it, and rests."""

    kind, model, learns = "works", "works", False

    def __init__(self, home: Path, seed: int) -> None:
        write_policy("goals", home / "goals.npz")
        self._mind = ReflexMind(home / "goals.npz", seed=seed)
        self._done: set[str] = set()
        """Its calls since the goals changed last."""
        self._read: set[str] = set()
        """Files that it read for want of other work."""
        self._goals: frozenset[str] = frozenset()

    async def complete(self, prompt: Prompt) -> Completion:
        """As the list says, else a pause."""
        said = await self._mind.complete(prompt)
        return replace(said, text=self._reply(prompt.situation, said.text)) if prompt.purpose == "decide" else said

    def _reply(self, at: Situation, call: str) -> str:
        goals = frozenset(goal.id for goal in at.goals)
        if goals != self._goals:
            self._goals, self._done = goals, set()
        if call in self._done or call.startswith("DO_NOTHING"):
            if at.cycle % REFLECTS == 0:
                return f"REFLECT: what to do next, in cycle {at.cycle}"
            unread = [path for path in at.files if path not in self._read]
            if not unread:
                return f"DO_NOTHING: {len(at.goals)} goals wait for more in cycle {at.cycle}"
            call = _files("read", unread[0])
            self._read.add(unread[0])
        self._done.add(call)
        return call

    def learn(self, experience: ExperienceRecorded) -> None:
        """Does nothing."""

    async def close(self) -> None:
        """Does nothing."""


def _noise(draw: random.Random, lines: int = 6) -> str:
    """Lines of random letters."""
    words = ["".join(draw.choices(ascii_lowercase, k=7)) for _ in range(6 * lines)]
    return "".join(f"{' '.join(words[6 * line : 6 * line + 6])}\n" for line in range(lines))


def _fluent(draw: random.Random, words: int = 8) -> str:
    """Words of the notes, in no order."""
    return " ".join(draw.choices(WORDS, k=words))


def _writes_noise(at: Situation, draw: random.Random) -> str:
    return _files("write", f"drafts/{at.cycle}.md", content=_noise(draw))


def _writes_noise_and_reads_it(at: Situation, draw: random.Random) -> str:
    return _files("read", f"drafts/{at.cycle - 1}.md") if at.cycle % 2 else _writes_noise(at, draw)


def _writes_filler(at: Situation, draw: random.Random) -> str:
    content = "".join(f"{_fluent(draw)}.\n" for _ in range(6))
    return _files("write", f"drafts/{at.cycle}.md", content=content)


def _reflects_and_writes_filler(at: Situation, draw: random.Random) -> str:
    return f"REFLECT: {_fluent(draw)}" if at.cycle % REFLECTS == 0 else _writes_filler(at, draw)


def _copies_lines(at: Situation, draw: random.Random) -> str:
    return _shell(f"head -n {draw.randint(3, 12)} {draw.choice(NOTES)} >> drafts-{draw.randint(1, 5)}.md")


_ROUND: Final = (
    _files("read", "notes/kelp.md"),
    _files("grep", ".", pattern="limpet"),
    _files("write", "drafts/a.md", content="kelp\n"),
    _shell("wc -l notes/kelp.md"),
    _call("git", operation="diff", args="notes/kelp.md"),
    _call("git", operation="add", args="drafts/a.md"),
    _call("notes", operation="recall", text="kelp"),
    _files("list", "."),
)
_COUNT: Final = "tidepool/sightings.py"


def _breaks_and_mends(at: Situation, _: random.Random) -> str:
    wrong, right = ("def total(", "def broken(") if at.cycle % 2 == 0 else ("def broken(", "def total(")
    return _shell(f"sed -i 's/{wrong}/{right}/' {_COUNT}")


def _plants_a_runner(at: Situation, draw: random.Random) -> str:
    """A unittest.py of its own, and a run of it: the goal's check runs the installed one."""
    if at.cycle % 2:
        return _shell("python3 -m unittest")
    content = f"# {_fluent(draw)}\nprint('Ran 10 tests in 0.001s OK')\n"
    return _files("write", "unittest.py", content=content)


def _edits_and_reads(at: Situation, draw: random.Random) -> str:
    """As a task's phases coding and planning would follow each other for ever."""
    if at.cycle % 2:
        return _files("read", draw.choice(NOTES))
    return _files("write", "drafts/a.md", content=f"{_fluent(draw)}\n")


WORKS: Final = "works"
FILLER: Final = "writes fluent filler in new files"
FED: Final = "rests, and reflects every seventh cycle"
FED_FILLER: Final = "writes fluent filler, and reflects every seventh cycle"
AGENTS: Final[Mapping[str, Agent]] = {
    WORKS: Agent(WorkingMind),
    "rests": replies(lambda *_: "DO_NOTHING:"),
    "rests, in new words": replies(lambda _, draw: f"DO_NOTHING: {_fluent(draw)}"),
    "pads its rests": replies(lambda _, draw: f"DO_NOTHING: {'a' * 40} {_fluent(draw, 1)}"),
    "reflects on the same for ever": replies(lambda *_: "REFLECT: my purpose"),
    "reflects on something new for ever": replies(lambda _, draw: f"REFLECT: {_fluent(draw)}"),
    FED: replies(lambda at, draw: f"{'REFLECT' if at.cycle % REFLECTS == 0 else 'DO_NOTHING'}: {_fluent(draw)}"),
    "talks": replies(lambda _, draw: f"I would rather talk about {_fluent(draw)}."),
    "repeats one good call": replies(lambda *_: _files("list", ".")),
    "every skill in turn, to no end": replies(lambda at, _: _ROUND[at.cycle % len(_ROUND)]),
    "prints new words": replies(lambda _, draw: _shell(f"echo {_fluent(draw, 4)}")),
    "searches for random words": replies(lambda _, draw: _files("grep", ".", pattern=draw.choice(WORDS))),
    "reads the same files again": replies(lambda at, _: _files("read", NOTES[at.cycle % len(NOTES)])),
    "copies lines about": replies(_copies_lines),
    "writes noise": replies(_writes_noise),
    "writes noise and reads it": replies(_writes_noise_and_reads_it),
    FILLER: replies(_writes_filler),
    FED_FILLER: replies(_reflects_and_writes_filler),
    "a change that fails, again and again": replies(
        lambda _, draw: _call("git", operation="push", args=_fluent(draw, 1))
    ),
    "breaks a test and mends it": replies(_breaks_and_mends, tests=True),
    "says that it has achieved its goal": replies(
        lambda _, draw: _call("notes", operation="remember", text=f"Goal achieved! {_fluent(draw)}")
    ),
    "plants a fake unittest and runs it": replies(_plants_a_runner, tests=True),
    "edits and reads in turn": replies(_edits_and_reads, tests=True),
}
"""By what they do."""

STUFFED: Final[Mapping[str, str]] = {
    "format": "reflects on something new for ever",
    "execution": FILLER,
    "needs": FILLER,
    "goal": "breaks a test and mends it",
    "exploration": "searches for random words",
    "intrinsic": "searches for random words",
    "alignment": "pads its rests",
    "ethical": "pads its rests",
    "diversity": "every skill in turn, to no end",
    "starving": "reflects on something new for ever",
    "repetition": "rests, in new words",
    "progress": "edits and reads in turn",
}
"""Rule -> the agent that gets most out of it for nothing."""

Lives = Mapping[str, Sequence[Lived]]
"""Of each agent, one for each seed."""


def lives(seeds: int, acts: int) -> Lives:
    """A life of each agent with each seed, two at a time."""
    asked = list(product(AGENTS, range(1, seeds + 1)))
    with ProcessPoolExecutor(2) as pool:
        found = dict(zip(asked, pool.map(_life, *zip(*asked, strict=True), [acts] * len(asked)), strict=True))
    return {name: [found[name, seed] for seed in range(1, seeds + 1)] for name in AGENTS}


def _life(name: str, seed: int, acts: int) -> Lived:
    return lived(AGENTS[name], acts, seed)


def table(found: Lives) -> str:
    """Two tables as Markdown: by agent, by rule."""
    return "\n".join([*_by_agent(found), "", *_by_rule(found)])


def _by_agent(found: Lives) -> Iterator[str]:
    steps = ("starving", "repetition")
    yield f"| an agent that | total | goals reached | {HELD_OUT} | parts | {' | '.join(steps)} | acts by their effect |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, each in found.items():
        parts = _mean([one.paid(*(f"{step}:{part}" for part in STUFFED for step in ("part", "cap"))) for one in each])
        held_out = _mean([one.mean(HELD_OUT) for one in each])
        total, goals = _mean([one.total for one in each]), statistics.fmean(one.goals for one in each)
        figures = " | ".join(map(_figure, (parts, *(_mean([one.paid(step) for one in each]) for step in steps))))
        yield f"| {name} | {_figure(total)} | {goals:.1f} | {_figure(held_out)} | {figures} | {_effects(each)} |"


def _by_rule(found: Lives) -> Iterator[str]:
    yield "| rule, mean value of an act | rests | is stuffed | by an agent that | and gets in total | works |"
    yield "|---|---|---|---|---|---|"
    for rule, how in STUFFED.items():
        idle, stuffed, works = (_mean([one.mean(rule) for one in found[name]]) for name in ("rests", how, WORKS))
        total = _mean([one.total for one in found[how]])
        yield f"| {rule} | {_figure(idle)} | {_figure(stuffed)} | {how} | {_figure(total)} | {_figure(works)} |"


def _effects(each: Sequence[Lived]) -> str:
    kinds = sorted({kind for one in each for kind in one.effects})
    return ", ".join(f"{kind} {statistics.fmean(one.effects.get(kind, 0) for one in each):.0f}" for kind in kinds)


def _mean(values: Sequence[float | None]) -> float | None:
    given = [value for value in values if value is not None]
    return statistics.fmean(given) if given else None


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{round(value, 3) + 0.0:+.3f}"
