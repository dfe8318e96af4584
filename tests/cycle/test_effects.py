"""What an act brought about, as the agent measures it and records it in `action.taken`."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Delivery
from conch.cycle.effects.phases import phase_of
from conch.cycle.effects.scan import MOST_ENTRIES
from conch.cycle.state.work import WorkLedger
from conch.folds import tool_result
from conch.tools import tool
from conch_schemas import (
    ActionTaken,
    CommandCheck,
    FileCheck,
    Goal,
    MeasuredEffect,
    MessageReceived,
    Usage,
    encode,
    source_of,
    subject_of,
)

if TYPE_CHECKING:
    from tests.cycle.conftest import CrashingBus, Life

TEXT = "\n".join(f"The limpet of pool {word} holds its place." for word in "abcdefghij") + "\n"


@pytest.fixture
def measured(life: Life, tmp_path: Path) -> Life:
    """An agent whose acts are measured."""
    life.measures(tmp_path / "known.db")
    return life


async def effects(life: Life, *replies: str) -> Sequence[MeasuredEffect]:
    """The effects of acts that follow each other; each reply is an action."""
    begun = len(life.effects())
    life.mind.decides = lambda situation: replies[situation.cycle - begun]
    await life.run(begun + len(replies))
    found = life.effects()[begun:]
    assert None not in found
    return found  # type: ignore[no-any-return]


def read(path: str) -> str:
    return f'TOOL: filesystem(operation="read", path="{path}")'


def write(path: str, text: str) -> str:
    return f'TOOL: filesystem(operation="write", path="{path}", content="{text}")'


def shell(command: str) -> str:
    return f"TOOL: shell(command='{command}')"


def kinds(found: Sequence[MeasuredEffect]) -> list[str]:
    return [effect.kind for effect in found]


def allowances(life: Life) -> list[int | None]:
    """The paid changes that each act so far found left."""
    return [
        effect.work.allowance if effect is not None and effect.work is not None else None for effect in life.effects()
    ]


def results(life: Life) -> list[str | None]:
    """How each act so far counts as a call of a tool."""
    return [tool_result(act) for act in life.facts(ActionTaken)]


async def test_an_agent_that_does_not_measure_leaves_the_block_out(life: Life) -> None:
    """Its acts are scored by the rules for acts without a block."""
    await life.run(1)

    assert life.effects() == [None]


async def test_a_file_informs_once(measured: Life) -> None:
    """The first reading shows all its lines; the second none that is unseen. Neither is a change."""
    (measured.workspace / "a.md").write_text(TEXT)
    first, second = await effects(measured, read("a.md"), read("./a.md"))

    assert (first.kind, first.information.new, first.information.finished_file) == ("information", 10, True)
    assert (second.kind, second.information.lines, second.information.new) == ("none", 10, 0)
    assert (first.target, second.target, second.previous_path) == ("a.md", "a.md", "a.md")
    assert first.paths == second.paths == ()


async def test_five_unseen_lines_or_the_last_of_a_file_inform(measured: Life) -> None:
    """Four lines that a search found are too few, four more too, unless the file has no other."""
    (measured.workspace / "a.md").write_text(
        "".join(f"{kind} of pool {n}\n" for kind in ("kelp", "crab") for n in "1234")
    )
    search = 'TOOL: filesystem(operation="grep", path=".", pattern="{}")'
    few, last = await effects(measured, search.format("kelp"), search.format("crab"))

    assert (few.kind, few.information.new, few.opened) == ("none", 4, 4)
    assert (last.kind, last.information.new, last.information.finished_file) == ("information", 4, True)


async def test_what_the_agent_wrote_is_no_information(measured: Life) -> None:
    """Neither by a tool, nor in a note, nor by a command whose text stands in no argument."""
    made = "for n in 1 2 3 4 5 6; do echo pool $n holds $((n * 7)) limpets; done > b.md"
    (measured.workspace / "c.md").write_text("seaweed\n")
    written, noted, by_command, *again = await effects(
        measured,
        write("a.md", r"one\ntwo\nthree\nfour\nfive\nsix"),
        'TOOL: notes(operation="remember", text="seaweed")',
        shell(made),
        read("a.md"),
        read("b.md"),
        read("c.md"),
    )

    assert (written.kind, written.lines.new, noted.kind, by_command.lines.new) == ("change", 6, "none", 6)
    assert kinds(again) == ["none", "none", "none"]


@pytest.mark.parametrize("path", ["node_modules/a.md", "d/__pycache__/a.md", "large.md", "link.md"])
async def test_a_file_that_is_not_compared_informs_nobody(measured: Life, path: str) -> None:
    """The agent's own commands can fill it unseen: neither reading it nor a search in it brings information."""
    made = 'for n in 1 2 3 4 5 6; do echo "pool $n holds $((n * 7)) limpets"; done'
    pad = "head -c 1100000 /dev/zero | tr {} x".format('"\\0"')
    commands = {
        "large.md": f"({made}; {pad}) > large.md",
        "link.md": f"mkdir node_modules; {made} > node_modules/x; ln -s node_modules/x link.md",
    }
    written, *found = await effects(
        measured,
        shell(commands.get(path) or f"mkdir -p $(dirname {path}); {made} > {path}"),
        'TOOL: filesystem(operation="grep", path=".", pattern="pool [1-5]")',
        read(path),
    )

    assert written.lines.new == 0
    assert kinds(found) == ["none", "none"]


async def test_a_file_beyond_the_entries_of_a_scan_informs_nobody(measured: Life) -> None:
    """Where the root has too many entries, no file is compared."""
    for number in range(MOST_ENTRIES + 1):
        (measured.workspace / str(number)).touch()
    (measured.workspace / "a.md").write_text(TEXT)
    [found] = await effects(measured, read("a.md"))

    assert (found.kind, found.information.lines) == ("none", 0)


async def test_what_comes_to_be_compared_by_the_agents_act_is_known(measured: Life) -> None:
    """Lines that it wrote to a file with a NUL, which it then takes out."""
    made = 'for n in 1 2 3 4 5 6; do echo "pool $n holds $((n * 7)) limpets"; done'
    nul = f'(printf "\\0"; {made}) > b.md'
    *_, found = await effects(measured, shell(nul), shell('sed -i "s/\\x00//" b.md'), read("b.md"))

    assert b"\0" not in (measured.workspace / "b.md").read_bytes()
    assert (found.kind, found.information.lines, found.information.new) == ("none", 6, 0)


async def test_what_goals_checks_write_is_no_information(measured: Life) -> None:
    """A check may run the agent's own program, whose lines are known."""
    made = 'for n in 1 2 3 4 5 6; do echo "pool $n holds $(date +%N) limpets"; done'
    measured.configured(goals=(Goal(id="g", statement="g", check=CommandCheck(command=f"{made} > report; false")),))
    _, found = await effects(measured, write("a", "first line"), read("report"))

    assert (found.kind, found.information.lines, found.information.new) == ("none", 6, 0)


async def test_a_large_write_does_not_flush_what_is_known(measured: Life) -> None:
    """Files read before it stay known; its own inform nobody, also after an edit, and an edit of them is a change."""
    (measured.workspace / "a.md").write_text(TEXT)
    first, large, again, own, edited, after = await effects(
        measured,
        read("a.md"),
        shell("mkdir d; seq -f K%06g 0 110000 | split -l 9000 - d/"),
        read("a.md"),
        read("d/ac"),
        shell("sed -i 1s/K/L/ d/ac"),
        read("d/ac"),
    )

    assert kinds((first, large, again, own, edited, after)) == [
        "information", "change", "none", "none", "change", "none"
    ]  # fmt: skip


async def test_programs_inform_three_times_in_fifty_acts(measured: Life) -> None:
    """The output of commands and listings is limited; files that a tool reads are not."""
    measured.configured(effects={"program_window": 6})
    loop = "for n in 1 2 3 4 5; do echo {} $n; done"
    for name in "xyz":
        (measured.workspace / name).write_text(TEXT.replace("limpet", name))
    found = await effects(
        measured, *(shell(loop.format(word)) for word in "abcd"), read("x"), read("y"), shell(loop.format("e"))
    )

    assert kinds(found) == ["information"] * 3 + ["none"] + ["information"] * 3


async def test_a_tools_words_about_its_own_act_inform_nobody(measured: Life) -> None:
    """What `write`, `info` and `notes` say has no lines that count."""
    ask = 'TOOL: filesystem(operation="info", path=".")'
    found = await effects(measured, ask, 'TOOL: notes(operation="recall", text="tide")')

    assert [(effect.kind, effect.information.lines) for effect in found] == [("none", 0), ("none", 0)]


async def test_a_tool_that_reads_the_world_informs(measured: Life) -> None:
    """Of a tool of a user's own, the declared effect tells; it may bring information at any time."""

    @tool(effects="world")
    async def fetch(page: int) -> str:
        """Fetches a page."""
        return "\n".join(f"page {page} says {line}" for line in range(5))

    measured.add(fetch)
    found = await effects(measured, *(f"TOOL: fetch(page={page})" for page in range(5)))

    assert kinds(found) == ["information"] * 5


async def test_a_tool_that_lies_about_reading_is_measured(measured: Life) -> None:
    """A tool of a user's own that declares `read` and writes has changed the workspace."""
    workspace = measured.workspace

    @tool(effects="read")
    async def peek() -> str:
        """Looks, it says."""
        (workspace / "made.md").write_text("a line of its own\n")
        return ""

    measured.add(peek)
    [found] = await effects(measured, "TOOL: peek()")

    assert (found.kind, found.paths) == ("change", ("made.md",))


async def test_a_failed_command_that_changed_nothing_is_no_change(measured: Life) -> None:
    """A cache that a program keeps for itself is no change of the workspace either."""
    nothing, cache, touched = await effects(
        measured, shell("exit 3"), shell("mkdir __pycache__; echo x > __pycache__/x.pyc"), shell("touch x; exit 1")
    )

    assert (nothing.paths, cache.paths, touched.paths) == ((), (), ("x",))


async def test_copies_moves_and_removals_are_no_change(measured: Life) -> None:
    """Only a line that is new to the workspace counts; the lines themselves are counted as they went."""
    (measured.workspace / "a.md").write_text(TEXT)
    copied, moved, cut, edited = await effects(
        measured,
        shell("cp a.md b.md"),
        shell("mv a.md c.md"),
        shell("head -n 4 b.md > d.md; mv d.md b.md"),
        shell("sed -i s/limpet/urchin/ c.md"),
    )

    assert kinds((copied, moved, cut, edited)) == ["none", "none", "none", "change"]
    assert (copied.lines.added, copied.lines.new) == (10, 0)
    assert (moved.lines.moved, moved.lines.removed, moved.lines_changed) == (10, 10, 20)
    assert (cut.lines.removed, edited.lines.new, edited.lines.removed) == (6, 10, 10)


async def test_changes_that_move_no_goal_use_up_the_allowance(measured: Life) -> None:
    """From then on they are idle, also after a rest, a change by others and a restart: only a reached goal gives back.
    The rest leaves the allowance as it is."""
    measured.configured(effects={"run_length": 3})
    fill = [write("a.md", f"a fresh line of {word}") for word in ("one", "two", "three", "four", "five")]
    await effects(measured, *fill[:2], "DO_NOTHING: resting", *fill[2:4])
    (measured.workspace / "theirs.md").write_text("from a person\n")
    await effects(measured, fill[4])

    assert allowances(measured) == [3, 2, 1, 1, 0, 0]
    assert results(measured) == ["success", "success", None, "success", "idle", "idle"]


async def test_a_reached_goal_gives_back_what_it_took(measured: Life) -> None:
    """At most the changes that were paid since it was set, and not more than 3; progress alone gives nothing back, and
    is paid whatever the allowance is."""
    measured.configured(effects={"run_length": 7})
    await effects(measured, *(write("a", f"line {n} before there was a goal") for n in range(2)))
    check = FileCheck(path="g", contains=("x", "y"))
    measured.configured(effects={"run_length": 7}, goals=(Goal(id="g", statement="g", check=check),))
    await effects(measured, write("a", "one"), write("g", "x"), write("a", "two"), write("g", "x y"), write("a", "3"))
    measured.configured(effects={"run_length": 7}, goals=(Goal(id="h", statement="h", check=FileCheck(path="h")),))
    fill = [write("a", f"filler number {n}") for n in range(6)]
    await effects(measured, *fill, write("h", "x"), "DO_NOTHING: resting")

    assert allowances(measured) == [7, 6, 5, 4, 4, 3, 5, 4, 3, 2, 1, 0, 0, 0, 3]
    assert [act.effect.work.open for act in measured.facts(ActionTaken)] == [0, 0] + [1] * 4 + [0] + [1] * 7 + [0]


async def test_a_test_run_that_moves_no_goal_uses_up_the_allowance_too(measured: Life) -> None:
    """Else changes that are not paid, each with a run of the tests, would be."""
    measured.configured(effects={"run_length": 2})
    case = r"import unittest\nclass Tide(unittest.TestCase):\n    def test_falls(self): self.fail()\n"
    tests = shell(f"{sys.executable} -m unittest test_tide")
    await effects(measured, write("test_tide.py", case), tests, write("a", "a line"), tests)

    assert allowances(measured) == [2, 1, 0, 0]
    assert results(measured) == ["success", "success", "idle", "idle"]


async def test_adding_to_one_file_is_idle_from_the_third_time(measured: Life) -> None:
    """Until a goal's measure moves; another file counts for itself, and an edit is no addition."""
    (measured.workspace / "journal").write_text("the first line\n")
    check = FileCheck(path="g", contains=("x", "y"))
    measured.configured(goals=(Goal(id="g", statement="g", check=check),))

    def add(line: str, path: str = "journal") -> str:
        return shell(f'echo "{line}" >> {path}')

    edit = shell('sed -i "s/the first line/another one/" journal')
    replies = (
        add("ebb"),
        add("flood"),
        add("slack"),
        edit,
        add("neap"),
        add("x", "other"),
        write("g", "x"),
        add("sun"),
    )
    found = await effects(measured, *replies)

    assert [effect.work and effect.work.appends for effect in found] == [1, 2, 3, 0, 4, 1, 1, 1]
    assert found[0].work is not None
    assert found[0].work.appended == ("journal",)
    assert results(measured) == ["success", "success", "idle", "success", "idle", "success", "success", "success"]


async def test_an_answer_gives_back_what_the_message_took(measured: Life) -> None:
    """And a message that waits is open work, as a goal is."""
    measured.configured(effects={"run_length": 2})
    await tell(measured, "m1", "Please write down the ebb.")
    await effects(measured, write("a", "the ebb"), 'TOOL: reply(text="It stands in a.")', "DO_NOTHING: resting")

    assert allowances(measured) == [2, 1, 2]
    assert [act.effect.work.open for act in measured.facts(ActionTaken)] == [1, 1, 0]


async def test_noise_neither_informs_nor_changes(measured: Life) -> None:
    """Random letters in a script that the agent has read; a script that it has not read is no noise."""
    for n in range(16):
        (measured.workspace / f"book{n}").write_text(f"{n} ".join(TEXT.splitlines()) + f"\nThe harbour of {n}.")
    noise = " ".join(["qxzvk wjqpf zzkxv bqwpm vxjkq"] * 3)
    for n in range(16):
        await effects(measured, read(f"book{n}"))
    greek, filler, line = await effects(
        measured,
        write("greek", "η παλίρροια ανεβαίνει κάθε πρωί στο λιμάνι της πόλης μας"),
        write("noise", noise),
        write("line", "The harbour holds the limpet in its place of the pool and the tide."),
    )

    assert (greek.kind, greek.noise) == ("change", False)
    assert (filler.kind, filler.noise, filler.lines.new) == ("none", True, 1)
    assert (line.kind, line.noise) == ("change", False)


async def test_noise_is_told_by_what_the_workspace_held_at_first(measured: Life) -> None:
    """An agent that reads nothing cannot write noise for ever; noise that it wrote is no text after a restart."""
    for n in range(16):
        (measured.workspace / f"book{n}").write_text(f"{n} ".join(TEXT.splitlines()) + f"\nThe harbour of {n}.")
    noise = "qxzvk wjqpf zzkxv bqwpm vxjkq yqzwx"
    [first] = await effects(measured, write("a", f"{noise} {noise}"))
    [second] = await effects(measured, write("b", f"{noise} {noise} again"))

    assert [(one.kind, one.noise, one.information.lines) for one in (first, second)] == [("none", True, 0)] * 2


async def test_an_answer_comes_before_all_else(measured: Life) -> None:
    """A message answered is the effect; its lines and its topic are new."""
    await tell(measured, "m1", "When does the tide fall in the harbour?")
    answered, again = await effects(
        measured, 'TOOL: reply(text="At noon.")', 'TOOL: notes(operation="remember", text="At noon.")'
    )

    assert (answered.kind, answered.information.new, answered.need_events) == ("answer", 1, ("new_topic",))
    assert again.need_events == ()


async def tell(life: Any, id: str, text: str) -> None:
    """A person's message, before the agent runs on."""
    said = MessageReceived(id=id, text=text, source=source_of("echo", life.agentuid), agent="echo")
    number = life.journal.last + 1
    life.journal.events[number] = Delivery(number, subject_of(said), encode(said), 0.0)
    life.journal.last = number


async def test_a_topic_is_new_once(measured: Life) -> None:
    """A second message with the same words is none; neither is the first one after a restart."""
    await tell(measured, "m1", "When does the tide fall in the harbour?")
    await effects(measured, "DO_NOTHING: waiting")
    await tell(measured, "m2", "Does the tide fall in this harbour, when?")
    [again] = await effects(measured, "DO_NOTHING: waiting")
    await tell(measured, "m3", "Please count barnacles along every southern rock.")
    [other] = await effects(measured, "DO_NOTHING: waiting")

    assert (again.need_events, other.need_events) == ((), ("new_topic",))


async def test_a_lesson_is_drawn_from_two_acts(measured: Life) -> None:
    """A note with words of two outputs is learned; one of a single output, or the same note again, is not."""
    (measured.workspace / "a").write_text("limpets graze slowly over granite\n")
    (measured.workspace / "b").write_text("urchins prefer kelp forests below\n")
    note = 'TOOL: notes(operation="remember", text="{}")'
    found = await effects(
        measured,
        read("a"),
        read("b"),
        note.format("limpets graze granite"),
        note.format("limpets graze while urchins prefer kelp"),
        note.format("limpets graze while urchins prefer kelp"),
    )

    assert [effect.need_events for effect in found[2:]] == [(), ("learned_something",), ()]


async def test_a_check_counts_once_until_the_workspace_changes(measured: Life) -> None:
    """A goal's own check and a test program, by whichever options; a program that was not found did not run."""
    measured.configured(goals=(Goal(id="g", statement="g", check=CommandCheck(command="test -e done")),))
    (measured.workspace / "Makefile").write_text("test:\n\t@false\n")
    found = await effects(
        measured,
        shell("test -e done"),
        shell("test  -e done"),
        write("x", "some line"),
        shell("test -e done"),
        shell("make -s test"),
        shell("cd . && make test"),
        shell("nox"),
        shell("echo make test"),
    )

    runs = [[(run.goal, run.ran, run.changed_since) for run in effect.checks] for effect in found]
    assert runs[:2] == [[("g", True, True)], [("g", True, False)]]
    assert runs[2:4] == [[], [("g", True, True)]]
    assert runs[4:] == [[(None, True, True)], [(None, True, False)], [(None, False, True)], []]


async def test_a_test_program_without_a_test_did_not_run(measured: Life) -> None:
    """Neither where it asks for the version, nor where it finds no test; a new mode is no change to run it for."""
    python = f"{sys.executable} -m unittest"
    case = r"import unittest\nclass Tide(unittest.TestCase):\n    def test_falls(self): pass\n"
    found = await effects(
        measured,
        shell(f"{python} --help"),
        shell(python),
        write("test_tide.py", case),
        shell(python),
        shell("chmod 700 test_tide.py; touch test_tide.py"),
        shell(python),
    )

    runs = [[(run.ran, run.no_result, run.changed_since) for run in effect.checks] for effect in found]
    assert runs == [[], [(False, True, True)], [], [(True, False, True)], [], [(True, False, False)]]
    assert found[4].paths == ("test_tide.py",)


async def test_tests_that_cannot_be_loaded_are_no_run(measured: Life) -> None:
    """Nor do they stand in the way of a run: that one counts, also beside a test that cannot be loaded. The check of a
    goal is no exception."""
    python = f"{sys.executable} -m unittest"
    check = CommandCheck(command=f"{python} notes.words")
    measured.configured(goals=(Goal(id="g", statement="g", check=check),))
    case = r"import unittest\nclass Tide(unittest.TestCase):\n    def test_falls(self): self.fail()\n"
    found = await effects(
        measured,
        write("test_tide.py", case),
        shell(f"{python} notes/words.md"),
        shell(check.command),
        shell(f"{python} test_tide notes/words.md"),
    )

    runs = [[(run.goal, run.ran, run.no_result, run.changed_since) for run in effect.checks] for effect in found]
    assert runs == [[], [(None, False, True, True)], [("g", False, True, True)], [(None, True, False, True)]]
    acts = measured.facts(ActionTaken)
    assert [tool_result(act) for act in acts[1:]] == ["idle", "idle", "success"]
    assert [phase_of(act) for act in acts[1:]] == [None, None, "testing"]


async def test_a_problem_is_novel_where_the_agents_own_try_failed(measured: Life) -> None:
    """A try changed the check's measure or ran the check; an act beside it is none (ruling 7)."""
    check = CommandCheck(command="grep -q tide x")
    measured.configured(goals=(Goal(id="g", statement="g", check=check),))
    await effects(measured, write("y", "beside it"), shell("grep -q tide x"), write("x", "tide"))

    found = [(goal.outcome, goal.failed_before) for act in measured.facts(ActionTaken) for goal in act.goals]
    assert found == [("neutral", False), ("neutral", False), ("achieved", True)]


async def test_a_measure_that_moved_and_failed_is_a_try(measured: Life) -> None:
    """Half of it, then all of it: a problem solved. All at once: none."""
    whole = FileCheck(path="x", contains=("tide", "moon"))
    measured.configured(
        goals=(Goal(id="g", statement="g", check=whole), Goal(id="h", statement="h", check=FileCheck(path="x")))
    )
    await effects(measured, write("x", "tide"), write("x", "tide moon"))

    found = {(goal.goal, goal.outcome): goal.failed_before for act in measured.facts(ActionTaken) for goal in act.goals}
    assert found == {("g", "partial"): False, ("h", "achieved"): False, ("g", "achieved"): True}


async def test_small_rises_add_up_to_progress(measured: Life) -> None:
    """A rise of less than 0.05 is neutral and leaves the best as it was, so that the next one counts from there."""
    parts = tuple(f"<{n}>" for n in range(40))
    measured.configured(goals=(Goal(id="g", statement="g", check=FileCheck(path="x", contains=parts)),))
    found = await effects(measured, *(write("x", "".join(parts[: n + 1])) for n in range(4)))

    checks = [(goal.outcome, goal.best) for act in measured.facts(ActionTaken) for goal in act.goals]
    assert checks == [("neutral", 0.0), ("partial", 0.0), ("neutral", 0.05), ("partial", 0.05)]
    assert kinds(found) == ["change", "progress", "change", "progress"]


async def test_what_goals_checks_write_is_no_change_from_outside(measured: Life) -> None:
    """A check that leaves files behind does not make a test run count again."""
    check = CommandCheck(command="date +%N > report; false")
    measured.configured(goals=(Goal(id="g", statement="g", check=check),))
    tests = shell(check.command)
    wrote, again, third = await effects(measured, write("a", "first line"), shell("true"), shell("true"))

    assert (wrote.paths, again.paths, third.paths) == (("a",), (), ())
    [first] = await effects(measured, tests)
    assert [run.changed_since for run in first.checks] == [True]


async def test_a_change_while_the_agent_was_away_is_from_outside(measured: Life) -> None:
    """Each run of `effects` is a process of its own: on what it finds changed, a check counts anew."""
    check = CommandCheck(command="test -f never")
    measured.configured(goals=(Goal(id="g", statement="g", check=check),))
    await effects(measured, shell(check.command))
    [same] = await effects(measured, shell(check.command))
    (measured.workspace / "theirs").write_text("from a person\n")
    [counts] = await effects(measured, shell(check.command))

    assert [run.changed_since for run in (*same.checks, *counts.checks)] == [False, True]


async def test_a_path_outside_the_workspace_is_blocked(measured: Life) -> None:
    """By each operation that takes one, and nothing is measured of it."""
    operations = ("read", "list", "exists", "info", "delete", "mkdir", "grep", "glob", "write")
    calls = [f'TOOL: filesystem(operation="{name}", path="../x", content="new", pattern="x")' for name in operations]
    found = await effects(measured, *calls)

    assert {act.outcome.status for act in measured.facts(ActionTaken)} == {"blocked"}
    assert set(kinds(found)) == {"none"}


async def test_offer_context_and_resources_are_said(measured: Life) -> None:
    """The tool × operation pairs, the prompt's share of the window, and an hour's tokens that run short."""
    measured.configured(mind={"context_window": 1000, "max_tokens_per_hour": 1100})
    measured.mind.usage = Usage(input_tokens=500)
    [found] = await effects(measured, "DO_NOTHING: resting")

    assert found.skills_on_offer == 26
    assert found.context is not None
    assert (found.context.tokens, found.context.window) == (500, 1000)
    assert "resource_low" in found.need_events


@pytest.mark.parametrize("stored", [False, True], ids=["not stored", "stored, not acknowledged"])
@pytest.mark.parametrize("at", range(4, 9))
async def test_no_line_is_new_twice_after_a_crash(measured: Life, at: int, stored: bool) -> None:
    """A process dies at a publish around an act: the act is `unknown` without a block, or stands as it was stored."""
    (measured.workspace / "a.md").write_text(TEXT)
    measured.mind.decides = lambda _: read("a.md")
    await measured.crash(2, at, stored=stored)
    before = measured.effects()
    await measured.run(3)

    found = measured.effects()
    assert found[: len(before)] == before
    assert [effect.information.new for effect in found if effect is not None and effect.kind == "information"] in (
        [10],
        [],
    )
    assert [fact.effect is None for fact in measured.facts(ActionTaken)] == [
        fact.outcome.status == "unknown" for fact in measured.facts(ActionTaken)
    ]


async def test_an_unknown_act_changed_nothing_from_outside(measured: Life, crashing_bus: type[CrashingBus]) -> None:
    """What the interrupted act wrote does not make a check count again, and uses up nothing."""
    workspace = measured.workspace

    @tool
    async def die() -> str:
        """Writes, and the process dies."""
        (workspace / "a").write_text("second line")
        raise crashing_bus.death

    measured.add(die)
    check = CommandCheck(command="test -f never")
    measured.configured(goals=(Goal(id="g", statement="g", check=check),))
    await effects(measured, shell(check.command))
    measured.mind.decides = lambda _: "TOOL: die()"
    await measured.crash(2, 99, stored=False)
    assert (measured.workspace / "a").read_text() == "second line"
    measured.mind.decides = lambda _: shell(check.command)
    await measured.run(3)

    first, unknown, again = measured.effects()
    assert (unknown, [run.changed_since for run in (*first.checks, *again.checks)]) == (None, [True, False])
    assert allowances(measured) == [20, None, 19]


async def test_a_damaged_index_is_set_aside(measured: Life, tmp_path: Path) -> None:
    """The agent begins anew at once, and knows nothing."""
    (measured.workspace / "a.md").write_text(TEXT)
    (tmp_path / "known.db").write_bytes(b"this is no database at all, it is prose" * 200)
    measured.mind.decides = lambda _: read("a.md")
    await measured.run(2)

    assert [effect and effect.kind for effect in measured.effects()] == ["information", "none"]
    assert (tmp_path / "known.db.damaged").exists()


async def test_a_damaged_state_does_not_end_the_agent(measured: Life, tmp_path: Path) -> None:
    """A state that is no state is set aside like a file that is no database, and the agent lives on."""
    (measured.workspace / "a.md").write_text(TEXT)
    await effects(measured, read("a.md"))
    with contextlib.closing(sqlite3.connect(tmp_path / "known.db")) as database, database:
        database.execute("UPDATE state SET value = X'FF7B' WHERE key = 'meter'")
    measured.mind.decides = lambda _: read("a.md")
    await measured.run(3)

    assert [effect and effect.kind for effect in measured.effects()] == ["information", "information", "none"]
    assert (tmp_path / "known.db.damaged").exists()


@pytest.mark.parametrize("stored", [False, True], ids=["not stored", "stored, not acknowledged"])
@pytest.mark.parametrize("at", range(4, 9))
async def test_a_crash_leaves_the_allowance_as_the_acts_on_the_stream_say(
    measured: Life, at: int, stored: bool
) -> None:
    """Around an act: the next one finds what a fold over the acts that stand on the stream finds, byte for byte."""
    fill = (write("a", "the first line"), shell("echo ebb >> b"), shell("echo flood >> b"), shell("echo slack >> b"))
    measured.mind.decides = lambda situation: fill[situation.cycle]
    await measured.crash(2, at, stored=stored)
    agent = await measured.run(4)

    ledger = WorkLedger()
    for act in measured.facts(ActionTaken):
        if act.effect is not None:
            work = act.effect.work
            assert work == ledger.before(work.open, 20, work.appended)
        ledger = ledger.acted(act, {})
    assert agent.memory.work.model_dump_json() == ledger.model_dump_json()


async def test_an_edit_is_a_change(measured: Life) -> None:
    """A line that an edit brings in counts as one that a write brings in; a refused edit changes nothing."""
    (measured.workspace / "f.md").write_text(TEXT)
    edit = 'TOOL: filesystem(operation="edit", path="f.md", old="pool c holds its place", new="pool c grazes at night")'
    done, again = await effects(measured, edit, edit)

    assert (done.kind, done.paths, done.lines.added, done.lines.new) == ("change", ("f.md",), 1, 1)
    assert done.target == "f.md"
    assert (again.kind, again.lines.added, again.paths) == ("none", 0, ())


async def test_numbered_lines_count_as_the_lines_of_the_file(measured: Life) -> None:
    """A read of a part brings the lines without their numbers: what was seen of them is not new in another part."""
    (measured.workspace / "f.md").write_text(TEXT)
    part = 'TOOL: filesystem(operation="read", path="f.md", offset={}, lines=4)'
    first, second, whole = await effects(measured, part.format(1), part.format(3), read("f.md"))

    assert (first.information.lines, first.information.new) == (4, 4)
    assert (second.information.lines, second.information.new, second.information.finished_file) == (4, 2, False)
    assert (whole.information.lines, whole.information.new, whole.information.finished_file) == (10, 4, True)


async def test_an_own_text_that_looks_numbered_informs_nobody(measured: Life) -> None:
    """A file that the agent wrote to look like a numbered read has no line that is new to it."""
    text = "[g.md: lines 1 to 3 of 3, 99 bytes]\\n" + "\\n".join(
        f"{place}\\tThe whelk of pool {place} waits." for place in range(1, 9)
    )
    _, seen = await effects(measured, write("g.md", text), read("g.md"))

    assert seen.information.new == 0
    assert seen.kind == "none"


async def test_a_kept_output_is_a_programs_output(measured: Life, tmp_path: Path) -> None:
    """Lines of a kept output bring information as those of the program did: within the programs' bound."""
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "1.txt").write_text(TEXT)
    measured.outputs = tmp_path / "outputs"
    [found] = await effects(measured, read("@output/1.txt"))

    assert (found.kind, found.information.new, found.information.finished_file) == ("information", 10, False)
