"""What the built-in rules pay an agent that rests, agents that stuff them, and one that works; printed by `rewards`.

Every agent lives in a notebook of its own (see `lives`), and is a script of what it does. The working one reads what an
open goal names, does what the goal asks for, and rests where no goal is open.
"""

from __future__ import annotations

import json
import random
import re
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from string import ascii_lowercase
from typing import Final

from lives import HELD_OUT, Agent, Lived, Reply, lived, replies

from conch.minds import Completion, Prompt, Situation
from conch.workspace.samples import TIDEPOOL
from conch_schemas import CommandCheck, ExperienceRecorded, FileCheck, Goal, Usage

ACTS: Final = 200
SEEDS: Final = 5
REFLECTS: Final = 7
"""Cycles from one reflection to the next of an agent that looks after its needs: curiosity falls by 0.02 in a cycle,
and a reflection raises it by 0.15."""
LINES: Final = 12
"""Lines that an agent adds to a goal's file in one act."""
_COMMITTED: Final = re.compile(r"--error-unmatch (.+?)(?: &&|$)")
_MEND: Final = re.compile(r"In (\S+), `(.+)` should read `(.+)`")
_BRE: Final = re.compile(r"[/.*\[\]^$&]")
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


class Worker:
    """Works on its open goals, one step after the other: reads what a goal names, then does what the goal asks for."""

    def __init__(self) -> None:
        self._done: set[tuple[str, str]] = set()
        """(goal, step) that it took, so that it takes none twice."""

    def step(self, at: Situation, kinds: tuple[str, ...] = ("commit", "file", "tests")) -> str | None:
        """Its next step towards the first goal of these kinds that it has steps left for; None: there is none."""
        for goal in at.goals:
            kind, steps = _steps(goal, at.files)
            if kind in kinds and goal.id not in at.proposed:
                for number, step in enumerate(steps):
                    if (goal.id, key := f"{number} {step}") not in self._done:
                        self._done.add((goal.id, key))
                        return step
        return None


def _steps(goal: Goal, files: Sequence[str]) -> tuple[str, list[str]]:
    """(kind of the goal, calls that reach it): the files that its statement names are read first."""
    check = goal.check
    named = [path for path in files if path in goal.statement and path != getattr(check, "path", None)]
    if isinstance(check, CommandCheck) and (path := _COMMITTED.search(check.command)):
        return "commit", [_call("git", operation="add", args=path[1]), _call("git", operation="commit", args="-am 'x'")]
    if isinstance(check, FileCheck):
        looks = [_files("read", path) for path in named]
        lines = list(check.contains) or ["Begun."]
        parts = range(LINES, len(lines) + LINES, LINES)
        return "file", looks + [_files("write", check.path, content="\n".join([*lines[:n], ""])) for n in parts]
    if (mend := _MEND.search(goal.statement)) is not None:
        program, wrong, right = mend.groups()
        edit = f"s/{_BRE.sub(chr(92) + chr(92) + chr(92) + 'g<0>', wrong)}/{right.replace('/', chr(92) + '/')}/"
        return "tests", [_files("read", program), _shell(f"sed -i {shlex.quote(edit)} {program}")]
    return "other", []


class WorkingMind:
    """Works where a goal is open (see `Worker`), and does what `beside` says where there is nothing to do for one."""

    kind, model, learns = "works", "works", False

    def __init__(self, seed: int, kinds: tuple[str, ...] = ("commit", "file", "tests"), beside: Reply | None = None,
                 fills: tuple[int, int] = (0, 1)) -> None:  # fmt: skip
        """`fills`: (n, m): in the first n of every m cycles it does what `beside` says although a goal is open."""
        self._worker, self._kinds, self._draw = Worker(), kinds, random.Random(seed)
        self._beside, self._fills = beside or _rests_in_words, fills

    async def complete(self, prompt: Prompt) -> Completion:
        """The next step towards a goal, else what it does beside; the same thought for every cycle."""
        at, text = prompt.situation, "I go on."
        if prompt.purpose == "decide":
            first, every = self._fills
            step = self._worker.step(at, self._kinds) if at.cycle % every >= first else None
            text = step or self._beside(at, self._draw)
        return Completion(text, "stop", Usage(), self.model, 0.0)

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


def _rests_in_words(_: Situation, draw: random.Random) -> str:
    return f"DO_NOTHING: {_fluent(draw)}"


_SUBJECTS: Final = ("The tide", "A limpet", "The kelp", "The crab", "One anemone", "The water", "A whelk", "The shrimp")
_VERBS: Final = ("keeps to", "leaves", "comes back to", "holds on to", "feeds along", "hides below", "waits beside")
_OBJECTS: Final = (
    "the upper pool",
    "its home scar",
    "the shaded ledge",
    "the weed",
    "the lowest stone",
    "the outer reef",
)
_ENDS: Final = (
    "as the light goes", "for most of an hour", "once the swell is over", "more often than last month",
    "which the notes say too", "though nobody has counted it", "when the water is cold",
)  # fmt: skip


def _sentences(draw: random.Random, number: int) -> str:
    """Sentences that a reader takes for notes, and that say nothing that was seen."""
    parts = (_SUBJECTS, _VERBS, _OBJECTS, _ENDS)
    return "\n".join(
        f"{' '.join(map(draw.choice, parts))} in week {draw.randint(1, 52)} of {draw.randint(1990, 2026)}."
        for _ in range(number)
    )


def _keeps_a_journal(_: Situation, draw: random.Random) -> str:
    return _shell(f"echo {shlex.quote(_sentences(draw, 2))} >> journal.md")


def _writes_essays(at: Situation, draw: random.Random) -> str:
    return _files("write", f"essays/{at.cycle}.md", content=f"# Week {at.cycle}\n\n{_sentences(draw, 6)}\n")


def _reads_for_ever(at: Situation, draw: random.Random) -> str:
    """Every file there is, new ones first, then parts of them."""
    path = at.files[-1 - at.cycle % len(at.files)] if at.files else "."
    if at.cycle < len(at.files):
        return _files("read", path)
    first = draw.randint(1, 30)
    return _shell(f"sed -n {first},{first + draw.randint(5, 20)}p {path}")


def _makes_easy_goals(at: Situation, draw: random.Random) -> str:
    """A goal of its own, the file that it asks for, and the file away again."""
    name = f"easy-{at.cycle // 3}.md"
    if at.cycle % 3 == 0:
        return _call("goal", operation="file", statement=f"There is {name}.", path=name, text=_fluent(draw, 2))
    if at.cycle % 3 == 1:
        return _files("write", name, content=f"{_fluent(draw)}\n")
    return _files("delete", name)


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
FILLS: Final = "reaches its goals and fills in between"
FILLS_PAUSES: Final = "reaches its goals and fills where none is open"
RESTS: Final = "rests whenever it can, in new words"
FILLER: Final = "writes fluent filler in new files"
FED: Final = "rests, and reflects every seventh cycle"
FED_FILLER: Final = "writes fluent filler, and reflects every seventh cycle"
AGENTS: Final[Mapping[str, Agent]] = {
    WORKS: Agent(lambda _, seed: WorkingMind(seed)),
    FILLS: Agent(lambda _, seed: WorkingMind(seed, beside=_writes_essays, fills=(3, 4))),
    FILLS_PAUSES: Agent(lambda _, seed: WorkingMind(seed, beside=_writes_essays)),
    "fills first and reaches its goals late": Agent(
        lambda _, seed: WorkingMind(seed, beside=_writes_essays, fills=(15, 20))
    ),
    "reaches the easy goal again and again": Agent(lambda _, seed: WorkingMind(seed, ("commit",), _makes_easy_goals)),
    "reaches the easy goals and rests": Agent(lambda _, seed: WorkingMind(seed, ("commit",))),
    "rests": replies(lambda *_: "DO_NOTHING:"),
    RESTS: replies(_rests_in_words),
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
    "reads for ever": replies(_reads_for_ever),
    "writes plausible prose in its journal": replies(_keeps_a_journal),
    "writes plausible prose in new files": replies(_writes_essays),
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
    "repetition": RESTS,
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
