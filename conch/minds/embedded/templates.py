"""Templates of tool calls for the reflex mind. Each serves a goal, or looks at something for one; one rests.

Their slots are filled from the goals, the workspace and the last act. No template writes words of its own: what is
written into a file stands in the workspace or in the goal.
"""

from __future__ import annotations

import posixpath
import random
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from conch.minds.protocol import Situation
from conch_schemas import Action, CommandCheck, FileCheck, Goal, TestsCheck

GOALS_AT_ONCE: Final = 3
"""Most goals that one decision considers; of more, so many are drawn."""
TEXTS_AT_ONCE: Final = 100
"""Most texts of a goal's check that one call looks for; of more, so many are drawn."""
LINES_AT_ONCE: Final = 6
"""Most lines that one call copies into a goal's file."""

GoalKind = Literal["table", "program", "prose", "file", "command", "tests"]
KINDS: Final[tuple[GoalKind, ...]] = ("table", "program", "prose", "file", "command", "tests")
"""Kinds of goals, by what they say. The first four have a check on a file, and their statement names a table (.csv), a
program (.py), another file, or none; the other two have a check that runs a command, or tests."""

_WORD = re.compile(r"[A-Za-z]{4,24}")
_TOKEN = re.compile(r"\w+")
_PATH = re.compile(r"[\w./-]*\w")
_CORRECTION = re.compile(r"\b[Ii]n ([\w./-]*\w),? `([^`\n]+)` should read `([^`\n]*)`")
_ADDING = (
    'NR==1{for(i=1;i<=NF;i++)if(index(said," "$i" ")){if(!key)key=i;else value=i}next}'
    'key&&value{sum[$key]+=$value}END{for(name in sum)print name","sum[name]}'
)
"""For awk, of a table with a heading: of the columns named in `said`, the sum of the last one for each of the first."""


class CorrectionSlots(NamedTuple):
    """A correction that a goal asks for."""

    file: str
    wrong: str
    right: str


@dataclass(frozen=True)
class GoalSlots:
    """The values that a goal's statement and check give; each is empty or None where they give none."""

    id: str
    kind: GoalKind
    statement: str = ""
    target: str | None = None
    """The file that the check reads."""
    begun: bool = False
    """Whether that file exists."""
    named: str | None = None
    """A file of the workspace that the statement names; not the one that the check reads."""
    files: tuple[str, ...] = ()
    """All files of the workspace that the statement names, and the one that the check reads."""
    words: str = ""
    """The statement's words, a blank before and behind each."""
    texts: tuple[str, ...] = ()
    """Texts that the check's file must hold, at most TEXTS_AT_ONCE."""
    command: str | None = None
    """The check's command."""
    correction: CorrectionSlots | None = None
    """The correction that the statement asks for: “in FILE, `WRONG` should read `RIGHT`”."""


@dataclass(frozen=True)
class TemplateSlots:
    """The values for the slots of one decision's templates."""

    file: str
    """One of the workspace's files."""
    folder: str
    """A folder of the workspace, or `.`."""
    message: str | None
    """A person's unanswered message."""
    goals: tuple[GoalSlots, ...]
    """Of GOALS_AT_ONCE goals at most."""


def fill_slots(situation: Situation, draw: random.Random, last: str | None = None) -> TemplateSlots:
    """Draw the slots' values, each possibility with equal probability. The goal with the id `last` is always one of the
    goals, where it is open."""
    goals = situation.goals
    if len(goals) > GOALS_AT_ONCE:
        kept = [goal for goal in goals if goal.id == last]
        others = [goal for goal in goals if goal.id != last]
        goals = (*kept, *draw.sample(others, GOALS_AT_ONCE - len(kept)))
    return TemplateSlots(
        file=draw.choice(situation.files) if situation.files else "README.md",
        folder=posixpath.dirname(draw.choice(situation.files) if situation.files else "") or ".",
        message=situation.message,
        goals=tuple(_goal_slots(goal, situation, draw) for goal in goals),
    )


def goal_kind(goal: Goal, files: Sequence[str]) -> GoalKind:
    """The kind of a goal in a workspace of these files."""
    check = goal.told_check
    if isinstance(check, TestsCheck):
        return "tests"
    if isinstance(check, CommandCheck):
        return "command"
    named = _named(goal, files)
    endings = {posixpath.splitext(path)[1] for path in named}
    return "table" if ".csv" in endings else "program" if ".py" in endings else "prose" if named else "file"


def goal_files(goal: Goal, files: Sequence[str]) -> tuple[str, ...]:
    """The files that a goal is about: the one that its check reads, and those of `files` that its statement names."""
    check = goal.told_check
    return (*([check.path] if isinstance(check, FileCheck) else []), *_named(goal, files))


def _named(goal: Goal, files: Sequence[str]) -> list[str]:
    own = goal.told_check.path if isinstance(goal.told_check, FileCheck) else None
    return sorted({*_PATH.findall(goal.statement)} & {*files} - {own})


def _goal_slots(goal: Goal, situation: Situation, draw: random.Random) -> GoalSlots:
    check, statement = goal.told_check, goal.statement
    own, texts = (check.path, check.contains) if isinstance(check, FileCheck) else (None, ())
    named = _named(goal, situation.files)
    correction = _CORRECTION.search(statement)
    return GoalSlots(
        id=goal.id,
        kind=goal_kind(goal, situation.files),
        statement=statement,
        target=own,
        begun=own in situation.files,
        named=draw.choice(named) if named else None,
        files=goal_files(goal, situation.files),
        words=f" {' '.join(_TOKEN.findall(statement))} ",
        texts=texts if len(texts) <= TEXTS_AT_ONCE else tuple(draw.sample(texts, TEXTS_AT_ONCE)),
        command=check.command if isinstance(check, CommandCheck | TestsCheck) else None,
        correction=CorrectionSlots(*correction.groups()) if correction and correction[1] in situation.files else None,
    )


class TemplateCall(NamedTuple):
    """A template with its slots filled."""

    kind: str
    """The tool's name, or DO_NOTHING."""
    args: dict[str, str]
    """The tool's arguments; `text` alone for a rest."""

    def action(self) -> Action:
        """The call as an action of the grammar."""
        if self.kind == "DO_NOTHING":
            return Action(kind="DO_NOTHING", valid=True, text=self.args["text"])
        return Action(kind="TOOL", valid=True, tool=self.kind, args=dict(self.args))


class CallTemplate(NamedTuple):
    """A template of a call. Exactly one of the two functions is given; it returns None where the slots have no value
    for the call."""

    name: str
    group: str
    """The `kind` of its calls."""
    of_goal: Callable[[GoalSlots], TemplateCall | None] | None = None
    """Makes a call for one goal."""
    plain: Callable[[TemplateSlots], TemplateCall | None] | None = None
    """Makes a call that no goal is needed for."""
    changes: bool = False
    """Whether the call may change the workspace, or runs code from it, which may."""
    commits: bool = False
    """Whether the call makes a commit, which outside of a sample project only a person wants to decide on."""


class TemplateChoice(NamedTuple):
    """A call that a decision may choose."""

    template: int
    """Its place in TEMPLATES."""
    call: TemplateCall
    goal: GoalSlots | None
    """The goal that it was made for."""


def fill_templates(
    slots: TemplateSlots, groups: frozenset[str], *, writes: bool, commits: bool
) -> list[TemplateChoice]:
    """Every call that the templates of these groups make with the slots, once: none of them twice. Without `writes`
    only those that change nothing in the workspace, without `commits` none that commits. While a person waits for an
    answer only that, whatever was paid more."""
    choices: dict[str, TemplateChoice] = {}
    for number, template in enumerate(TEMPLATES):
        if template.group not in groups or (template.changes and not writes) or (template.commits and not commits):
            continue
        made: list[tuple[TemplateCall | None, GoalSlots | None]] = []
        if template.plain is not None:
            made = [(template.plain(slots), None)]
        elif template.of_goal is not None:
            made = [(template.of_goal(goal), goal) for goal in slots.goals]
        for call, goal in made:
            if call is not None:
                choices.setdefault(f"{number} {call}", TemplateChoice(number, call, goal))
    answers = [choice for choice in choices.values() if TEMPLATES[choice.template].group == "reply"]
    return answers or list(choices.values())


def _files(operation: str, path: str, **more: str) -> TemplateCall:
    return TemplateCall("filesystem", {"operation": operation, "path": path, **more})


def _git(operation: str, args: str = "") -> TemplateCall:
    return TemplateCall("git", {"operation": operation, **({"args": args} if args else {})})


def _shell(*words: str, to: str | None = None) -> TemplateCall:
    return TemplateCall("shell", {"command": shlex.join(words) + (f" >> {shlex.quote(to)}" if to else "")})


def _read_named(goal: GoalSlots) -> TemplateCall | None:
    return None if goal.named is None else _files("read", goal.named)


def _read_target(goal: GoalSlots) -> TemplateCall | None:
    return _files("read", goal.target) if goal.target is not None and goal.begun else None


def _look_for_target(goal: GoalSlots) -> TemplateCall | None:
    return None if goal.target is None else _files("exists", goal.target)


def _see_facts(goal: GoalSlots) -> TemplateCall | None:
    return None if goal.named is None else _files("info", goal.named)


def _see_beginning(goal: GoalSlots) -> TemplateCall | None:
    return None if goal.named is None else _shell("head", "-n", "5", goal.named)


def _count_words(goal: GoalSlots) -> TemplateCall | None:
    return None if goal.named is None else _shell("wc", "-w", goal.named)


def _search_text(goal: GoalSlots) -> TemplateCall | None:
    return _files("grep", ".", pattern=re.escape(goal.texts[0])) if goal.texts else None


def _compare(goal: GoalSlots) -> TemplateCall | None:
    if goal.named is None or goal.target is None or not goal.begun:
        return None
    return _shell("diff", goal.named, goal.target)


def _see_history(goal: GoalSlots) -> TemplateCall | None:
    return None if goal.named is None else _git("log", shlex.join(("--oneline", "--", goal.named)))


def _see_changes(goal: GoalSlots) -> TemplateCall | None:
    return None if goal.named is None else _git("diff", shlex.join(("--", goal.named)))


def _stage_named(goal: GoalSlots) -> TemplateCall | None:
    return None if goal.named is None else _git("add", shlex.quote(goal.named))


def _stage_target(goal: GoalSlots) -> TemplateCall | None:
    return _git("add", shlex.quote(goal.target)) if goal.target is not None and goal.begun else None


def _commit(goal: GoalSlots) -> TemplateCall | None:
    about = goal.named or goal.target
    return None if about is None else _git("commit", shlex.join(("-m", f"Work on {about}")))


def _run_check(goal: GoalSlots) -> TemplateCall | None:
    return None if goal.command is None else TemplateCall("shell", {"command": goal.command})


def _begin(goal: GoalSlots) -> TemplateCall | None:
    """Create a file with its name as a heading, never over an existing one: it may be a person's. A table has none."""
    if goal.target is None or goal.begun or goal.target.endswith(".csv"):
        return None
    name, ending = posixpath.splitext(posixpath.basename(goal.target))
    title = " ".join(re.split(r"[-_ ]+", name)).strip().capitalize() or name
    return _files("write", goal.target, content=f"{'# ' if ending == '.md' else ''}{title}\n")


def _copy_lacking(goal: GoalSlots) -> TemplateCall | None:
    """For each text that the goal's file lacks, the first line of another file that has it."""
    if not goal.texts or goal.target is None:
        return None
    target, own = shlex.quote(goal.target), shlex.quote(posixpath.basename(goal.target))
    return TemplateCall("shell", {"command": (
        f'lines=0; for text in {shlex.join(goal.texts)}; do grep -qsF -e "$text" {target} && continue; '
        f"line=$(grep -rhIsF -m 1 --exclude-dir='.?*' --exclude={own} -e \"$text\" . | head -n 1); "
        f'[ -z "$line" ] && continue; printf "%s\\n" "$line"; lines=$((lines + 1)); '
        f"[ $lines -lt {LINES_AT_ONCE} ] || break; done >> {target}"
    )})  # fmt: skip


def _add_up(goal: GoalSlots) -> TemplateCall | None:
    if goal.named is None or goal.target is None or not goal.named.endswith(".csv"):
        return None
    return _shell("awk", "-F,", "-v", f"said={goal.words}", _ADDING, goal.named, to=goal.target)


def _keep_tests(goal: GoalSlots) -> TemplateCall | None:
    if goal.named is None or goal.target is None or not goal.named.endswith(".py"):
        return None
    running = shlex.join(("python3", "-m", "unittest", goal.named))
    return TemplateCall("shell", {"command": f"{running} 2>&1 | {shlex.join(('tee', '-a', goal.target))}"})


def _run_tests(goal: GoalSlots) -> TemplateCall | None:
    if goal.named is None or not goal.named.endswith(".py"):
        return None
    return _shell("python3", "-m", "unittest", goal.named)


def _correct(goal: GoalSlots) -> TemplateCall | None:
    correction = goal.correction
    if correction is None:
        return None
    wrong = re.sub(r"[\\/.*\[\]^$]", r"\\\g<0>", correction.wrong)
    right = re.sub(r"[\\/&]", r"\\\g<0>", correction.right)
    return _shell("sed", "-i", "-e", f"s/{wrong}/{right}/", "--", correction.file)


def _reply(slots: TemplateSlots) -> TemplateCall | None:
    if slots.message is None:
        return None
    words = " ".join(_WORD.findall(slots.message)[:8])
    heard = f"I heard “{words}”" if words else "I have your message"
    return TemplateCall("reply", {"text": f"I am a reflex, not a language model: {heard} and cannot say more to it."})


TEMPLATES: Final[tuple[CallTemplate, ...]] = (
    CallTemplate("list everything", "filesystem", plain=lambda _: _files("list", ".")),
    CallTemplate("list a folder", "filesystem", plain=lambda s: _files("list", s.folder)),
    CallTemplate("read a file", "filesystem", plain=lambda s: _files("read", s.file)),
    CallTemplate("see what changed", "git", plain=lambda _: _git("status")),
    CallTemplate("see the history", "git", plain=lambda _: _git("log")),
    CallTemplate("stage everything", "git", plain=lambda _: _git("add", "--all"), changes=True),
    CallTemplate("read the file that a goal names", "filesystem", _read_named),
    CallTemplate("read a goal's file", "filesystem", _read_target),
    CallTemplate("ask whether a goal's file exists", "filesystem", _look_for_target),
    CallTemplate("see the facts of the file that a goal names", "filesystem", _see_facts),
    CallTemplate("search for a text that a goal asks for", "filesystem", _search_text),
    CallTemplate("see the first lines of the file that a goal names", "shell", _see_beginning),
    CallTemplate("count the words of the file that a goal names", "shell", _count_words),
    CallTemplate("compare a goal's file with the one that it names", "shell", _compare),
    CallTemplate("see the history of the file that a goal names", "git", _see_history),
    CallTemplate("see the changes of the file that a goal names", "git", _see_changes),
    CallTemplate("run a goal's check", "shell", _run_check, changes=True),
    CallTemplate("run the tests that a goal names", "shell", _run_tests, changes=True),
    CallTemplate("begin a goal's file", "filesystem", _begin, changes=True),
    CallTemplate("copy the lines that a goal's file lacks", "shell", _copy_lacking, changes=True),
    CallTemplate("add up the columns that a goal names", "shell", _add_up, changes=True),
    CallTemplate("keep what the goal's tests say", "shell", _keep_tests, changes=True),
    CallTemplate("make the correction that a goal asks for", "shell", _correct, changes=True),
    CallTemplate("stage the file that a goal names", "git", _stage_named, changes=True),
    CallTemplate("stage a goal's file", "git", _stage_target, changes=True),
    CallTemplate("commit", "git", _commit, changes=True, commits=True),
    CallTemplate("answer", "reply", plain=_reply),
    CallTemplate("rest", "DO_NOTHING", plain=lambda _: TemplateCall("DO_NOTHING", {"text": "a pause"})),
)
"""Their order has no meaning."""
