"""Templates of tool calls for the reflex mind: their slots are filled from the situation, without a preference."""

from __future__ import annotations

import posixpath
import random
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from conch.minds.protocol import Situation
from conch_schemas import Action, CommandCheck, FileCheck, Goal, TestsCheck

WORD = re.compile(r"[A-Za-z]{4,24}")
DRAFTS = "drafts"
"""The folder for files that the mind creates by itself; it deletes nothing outside."""
JOURNAL = "journal.md"
"""The file that it writes to when no goal names one."""

TEXTS_AT_ONCE = 12
"""Most texts of a goal's check that one call looks for."""
LINES_AT_ONCE = 6
"""Most lines that one call copies into a goal's file."""

_TOKEN = re.compile(r"\w+")
_PATH = re.compile(r"[\w./-]*\w")
_CORRECTION = re.compile(r"\b[Ii]n ([\w./-]*\w),? `([^`\n]+)` should read `([^`\n]*)`")
_ADDING = (
    'NR==1{for(i=1;i<=NF;i++)if(index(said," "$i" ")){if(!key)key=i;else value=i}next}'
    'key&&value{sum[$key]+=$value}END{for(name in sum)print name","sum[name]}'
)
"""For awk, of a table with a heading: of the columns named in `said`, the sum of the last one for each of the first."""

_TOPICS = ("what I did last", "what failed", "what I have not tried", "the goals", "this place")
_SUFFIXES = (".md", ".csv", ".py", ".txt")


class CorrectionSlots(NamedTuple):
    """A correction that a goal asks for."""

    file: str
    wrong: str
    right: str


@dataclass(frozen=True)
class GoalSlots:
    """The values that a goal's statement and check give; each is empty or None where they give none."""

    named: str | None = None
    """A file of the workspace that the statement names; not the one that the check reads."""
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
    guess: str
    """A path composed of known names; it may not exist."""
    word: str
    """A word met before."""
    words: tuple[str, ...]
    """Several words met before."""
    target: str
    """The file that a goal is about, or the journal."""
    begun: bool
    """Whether that file exists."""
    wish: str
    """Some words of that goal's statement."""
    draft: str
    """A file in DRAFTS, one per need; it may not exist."""
    other_draft: str
    """Another such file, or the same."""
    number: int
    """1..16."""
    length: int
    """1..12."""
    other_file: str
    """One of the workspace's files."""
    seen: str
    """A line of the last act's output; the word where there was none."""
    topic: str
    """Something to reflect on."""
    message: str | None
    """A person's unanswered message."""
    aim: GoalSlots
    """What the goal that the target belongs to says."""
    other_aim: GoalSlots
    """What one of all goals says."""

    @property
    def prose(self) -> bool:
        """Whether the file is prose, by its extension."""
        return _ending(self.file) in (".md", ".txt", ".rst", "")

    @property
    def sentence(self) -> str:
        """A sentence with the words, for writing to a file."""
        return f"{', '.join(self.words[:-1])} and {self.words[-1]}: what do they have to do with {self.word}?"


def fill_slots(situation: Situation, vocabulary: Sequence[str], draw: random.Random) -> TemplateSlots:
    """Draw the slots' values, each possibility with equal probability. `vocabulary` must hold a word."""
    file = draw.choice(situation.files) if situation.files else "README.md"
    word = draw.choice(vocabulary)
    checks = [(goal, goal.told_check) for goal in situation.goals]
    wanted = [(goal, check.path) for goal, check in checks if isinstance(check, FileCheck)]
    goal, target = draw.choice(wanted) if wanted else (None, JOURNAL)
    statement = goal.statement if goal is not None else situation.need
    return TemplateSlots(
        file=file,
        folder=posixpath.dirname(draw.choice(situation.files) if situation.files else "") or ".",
        guess=posixpath.join(posixpath.dirname(file), word.lower() + draw.choice(_SUFFIXES)),
        word=word,
        words=tuple(draw.choice(vocabulary) for _ in range(draw.randint(2, 4))),
        target=target,
        begun=target in situation.files,
        wish=_some_of(statement, draw),
        draft=_draft(situation, draw),
        other_draft=_draft(situation, draw),
        number=draw.randint(1, 16),
        length=draw.randint(1, 12),
        other_file=draw.choice(situation.files) if situation.files else file,
        seen=_seen(situation, draw) or word,
        topic=draw.choice((*_TOPICS, situation.need, word)),
        message=situation.message,
        aim=_aim(goal, situation, draw),
        other_aim=_aim(draw.choice(situation.goals) if situation.goals else None, situation, draw),
    )


def _aim(goal: Goal | None, situation: Situation, draw: random.Random) -> GoalSlots:
    if goal is None:
        return GoalSlots()
    check, statement = goal.told_check, goal.statement
    own, texts = (check.path, check.contains) if isinstance(check, FileCheck) else (None, ())
    named = sorted({*_PATH.findall(statement)} & {*situation.files} - {own})
    found = _CORRECTION.search(statement)
    return GoalSlots(
        named=draw.choice(named) if named else None,
        words=f" {' '.join(_TOKEN.findall(statement))} ",
        texts=texts if len(texts) <= TEXTS_AT_ONCE else tuple(draw.sample(texts, TEXTS_AT_ONCE)),
        command=check.command if isinstance(check, CommandCheck | TestsCheck) else None,
        correction=CorrectionSlots(*found.groups()) if found and found[1] in situation.files else None,
    )


def _some_of(statement: str, draw: random.Random) -> str:
    """At most six of its words, in their order."""
    words = statement.split() or ["nothing"]
    start = draw.randrange(len(words))
    return " ".join(words[start : start + 6])[:200]


def _seen(situation: Situation, draw: random.Random) -> str:
    lines = situation.recent[-1].output.splitlines() if situation.recent else []
    return draw.choice(lines).strip()[:500] if lines else ""


def _ending(path: str) -> str:
    return posixpath.splitext(path)[1]


def _draft(situation: Situation, draw: random.Random) -> str:
    return f"{DRAFTS}/{draw.choice(sorted(situation.needs) or [situation.need])}.md"


class TemplateCall(NamedTuple):
    """A template with its slots filled."""

    kind: str
    """The tool's name, or DO_NOTHING or REFLECT."""
    args: dict[str, str]
    """The tool's arguments; `text` alone for the other two."""

    def action(self) -> Action:
        """The call as an action of the grammar."""
        if self.kind == "DO_NOTHING" or self.kind == "REFLECT":
            return Action(kind=self.kind, valid=True, text=self.args["text"])
        return Action(kind="TOOL", valid=True, tool=self.kind, args=dict(self.args))


class CallTemplate(NamedTuple):
    """A template of a call. `make` returns None where the situation has no value for one of its slots."""

    name: str
    make: Callable[[TemplateSlots], TemplateCall | None]
    changes: bool = False
    """Whether the call may change the workspace, or runs code from it, which may."""
    commits: bool = False
    """Whether the call makes a commit, which outside of a sample project only a person wants to decide on."""


def _files(operation: str, path: str, **more: str) -> TemplateCall:
    return TemplateCall("filesystem", {"operation": operation, "path": path, **more})


def _git(operation: str, args: str = "") -> TemplateCall:
    return TemplateCall("git", {"operation": operation, **({"args": args} if args else {})})


def _shell(*words: str, to: str | None = None) -> TemplateCall:
    return TemplateCall("shell", {"command": shlex.join(words) + (f" >> {shlex.quote(to)}" if to else "")})


def _piped(*commands: Sequence[str]) -> TemplateCall:
    return TemplateCall("shell", {"command": " | ".join(shlex.join(command) for command in commands)})


def _counted(file: str, column: int) -> TemplateCall:
    return _piped(("cut", "-d,", f"-f{column}", file), ("sort",), ("uniq", "-c"))


def _aligned(one: str, other: str, lines: int) -> TemplateCall:
    return _piped(("paste", one, other), ("head", "-n", str(lines)))


def _copied(to: str, *words: str) -> TemplateCall:
    return _piped(words, ("tee", "-a", to))


def _remember(text: str) -> TemplateCall:
    return TemplateCall("notes", {"operation": "remember", "text": text})


def _recall(query: str) -> TemplateCall:
    return TemplateCall("notes", {"operation": "recall", "text": query})


def _begin(slots: TemplateSlots) -> TemplateCall | None:
    """Create a file, never over an existing one: it may be a person's."""
    return None if slots.begun else _files("write", slots.target, content=f"{slots.wish}\n{slots.sentence}\n")


def _read_named(slots: TemplateSlots) -> TemplateCall | None:
    named = slots.other_aim.named
    return None if named is None else _files("read", named)


def _stage_named(slots: TemplateSlots) -> TemplateCall | None:
    named = slots.other_aim.named
    return None if named is None else _git("add", shlex.quote(named))


def _run_check(slots: TemplateSlots) -> TemplateCall | None:
    command = slots.other_aim.command
    return None if command is None else TemplateCall("shell", {"command": command})


def _copy_lacking(slots: TemplateSlots) -> TemplateCall | None:
    """For each text that the goal's file lacks, the first line of another file that has it."""
    if not slots.aim.texts:
        return None
    target, own = shlex.quote(slots.target), shlex.quote(posixpath.basename(slots.target))
    return TemplateCall("shell", {"command": (
        f'for text in {shlex.join(slots.aim.texts)}; do grep -qsF -e "$text" {target} || '
        f"grep -rhIsF -m 1 --exclude-dir='.?*' --exclude={own} -e \"$text\" . | head -n 1; "
        f"done | head -n {LINES_AT_ONCE} >> {target}"
    )})  # fmt: skip


def _add_up(slots: TemplateSlots) -> TemplateCall | None:
    named = slots.aim.named
    if named is None or _ending(named) != ".csv":
        return None
    return _shell("awk", "-F,", "-v", f"said={slots.aim.words}", _ADDING, named, to=slots.target)


def _keep_tests(slots: TemplateSlots) -> TemplateCall | None:
    named = slots.aim.named
    if named is None or _ending(named) != ".py":
        return None
    running = shlex.join(("python3", "-m", "unittest", named))
    return TemplateCall("shell", {"command": f"{running} 2>&1 | {shlex.join(('tee', '-a', slots.target))}"})


def _correct(slots: TemplateSlots) -> TemplateCall | None:
    correction = slots.other_aim.correction
    if correction is None:
        return None
    wrong = re.sub(r"[\\/.*\[\]^$]", r"\\\g<0>", correction.wrong)
    right = re.sub(r"[\\/&]", r"\\\g<0>", correction.right)
    return _shell("sed", "-i", "-e", f"s/{wrong}/{right}/", "--", correction.file)


def _reply(message: str | None) -> TemplateCall | None:
    if message is None:
        return None
    words = " ".join(WORD.findall(message)[:8])
    heard = f"I heard “{words}”" if words else "I have your message"
    return TemplateCall("reply", {"text": f"I am a reflex, not a language model: {heard} and cannot say more to it."})


TEMPLATES: tuple[CallTemplate, ...] = (
    CallTemplate("list everything", lambda s: _files("list", ".")),
    CallTemplate("list a folder", lambda s: _files("list", s.folder)),
    CallTemplate("read a file", lambda s: _files("read", s.file)),
    CallTemplate("read a file that might be there", lambda s: _files("read", s.guess)),
    CallTemplate("ask whether a file exists", lambda s: _files("exists", s.guess)),
    CallTemplate("look at a file's facts", lambda s: _files("info", s.file)),
    CallTemplate("find files by their ending", lambda s: _files("glob", ".", pattern=f"**/*{_ending(s.file)}")),
    CallTemplate("find files by a word", lambda s: _files("glob", ".", pattern=f"**/*{s.word.lower()}*")),
    CallTemplate("search everything for a word", lambda s: _files("grep", ".", pattern=s.word)),
    CallTemplate(
        "search everything for either of two words", lambda s: _files("grep", ".", pattern="|".join(s.words[:2]))
    ),
    CallTemplate("search a file for a word", lambda s: _files("grep", s.file, pattern=s.word)),
    CallTemplate(
        "write a draft", lambda s: _files("write", s.draft, content=f"# {s.word}\n\n{s.sentence}\n"), changes=True
    ),
    CallTemplate("begin the goal's file", _begin, changes=True),
    CallTemplate("list a folder that might be there", lambda s: _files("list", posixpath.splitext(s.guess)[0])),
    CallTemplate("look at the facts of what might be there", lambda s: _files("info", s.guess)),
    CallTemplate("make a folder", lambda s: _files("mkdir", posixpath.join(DRAFTS, s.folder)), changes=True),
    CallTemplate("delete a draft", lambda s: _files("delete", s.draft), changes=True),
    CallTemplate("see a file's first lines", lambda s: _shell("head", "-n", str(s.number), s.file)),
    CallTemplate("see a file's last lines", lambda s: _shell("tail", "-n", str(s.number), s.file)),
    CallTemplate("read a passage", lambda s: _shell("sed", "-n", f"{s.number},+{s.length}p", s.file)),
    CallTemplate("put two files side by side", lambda s: _aligned(s.file, s.other_file, s.length)),
    CallTemplate("count a file's words", lambda s: _shell("wc", "-w", s.file)),
    CallTemplate("sort a file's lines", lambda s: _shell("sort", "-u", s.file)),
    CallTemplate("see a line and its neighbours", lambda s: _shell("grep", "-i", "-C", "1", "-e", s.word, s.file)),
    CallTemplate("count a table's column", lambda s: _counted(s.file, s.number)),
    CallTemplate(
        "add up a table's column", lambda s: _shell("awk", "-F,", f"{{t+=${s.number}}}END{{print t}}", s.file)
    ),
    CallTemplate("see whether lines are in order", lambda s: _shell("sort", "-c", s.file)),
    CallTemplate("read a file as JSON", lambda s: _shell("python3", "-m", "json.tool", s.file), changes=True),
    CallTemplate("run a file's tests", lambda s: _shell("python3", "-m", "unittest", s.file), changes=True),
    CallTemplate("rename a draft", lambda s: _shell("mv", s.draft, s.other_draft), changes=True),
    CallTemplate("compare two files", lambda s: _shell("diff", s.file, s.target)),
    CallTemplate("run the tests", lambda s: _shell("python3", "-m", "unittest"), changes=True),
    CallTemplate("run a program", lambda s: _shell("python3", s.file), changes=True),
    CallTemplate("tell the time", lambda s: _shell("date")),
    CallTemplate("write a sentence down", lambda s: _shell("echo", s.sentence, to=s.target), changes=True),
    CallTemplate("write down what a goal says", lambda s: _shell("echo", s.wish, to=s.target), changes=True),
    CallTemplate("copy a line", lambda s: _copied(s.target, "sed", "-n", f"{s.number}p", s.file), changes=True),
    CallTemplate(
        "copy a file's beginning", lambda s: _copied(s.target, "head", "-n", str(s.number), s.file), changes=True
    ),
    CallTemplate(
        "copy what it says of a word", lambda s: _copied(s.target, "grep", "-i", "-e", s.word, s.file), changes=True
    ),
    CallTemplate("see what changed", lambda s: _git("status")),
    CallTemplate("see the history", lambda s: _git("log")),
    CallTemplate("see the history of a file", lambda s: _git("log", shlex.join(("--oneline", "--", s.file)))),
    CallTemplate("see the changes", lambda s: _git("diff")),
    CallTemplate("see the branches", lambda s: _git("branch")),
    CallTemplate(
        "go to a branch that might be there", lambda s: _git("checkout", f"{s.word.lower()} --"), changes=True
    ),
    CallTemplate("stage a file", lambda s: _git("add", shlex.quote(s.file)), changes=True),
    CallTemplate("stage everything", lambda s: _git("add", "--all"), changes=True),
    CallTemplate(
        "commit",
        lambda s: _git("commit", shlex.join(("-m", f"On {s.word} and {s.words[0]}"))),
        changes=True,
        commits=True,
    ),
    CallTemplate("read the file that a goal names", _read_named),
    CallTemplate("stage the file that a goal names", _stage_named, changes=True),
    CallTemplate("run a goal's check", _run_check, changes=True),
    CallTemplate("copy the lines that a goal's file lacks", _copy_lacking, changes=True),
    CallTemplate("add up the columns that a goal names", _add_up, changes=True),
    CallTemplate("keep what the goal's tests say", _keep_tests, changes=True),
    CallTemplate("make the correction that a goal asks for", _correct, changes=True),
    CallTemplate("remember a sentence", lambda s: _remember(s.sentence)),
    CallTemplate("remember what was seen last", lambda s: _remember(s.seen)),
    CallTemplate("recall a word", lambda s: _recall(s.word)),
    CallTemplate("answer", lambda s: _reply(s.message)),
    CallTemplate("rest", lambda s: TemplateCall("DO_NOTHING", {"text": "a pause"})),
    CallTemplate("reflect", lambda s: TemplateCall("REFLECT", {"text": s.topic})),
)
"""61 templates. Their order has no meaning."""
