"""A candidate is tried and scored in a copy of the workspace as it was; nothing else is changed."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from conch.errors import ConchError, UsageError
from conch.forks import Fork, ForkRequest, fork_minds
from conch.snapshots import GoalThen
from conch_schemas import FileCheck, ForkScored, Goal, GoalWork, TestsCheck

if TYPE_CHECKING:
    from tests.forks.conftest import Recorded


def call(tool: str, **args: str) -> str:
    """A reply that calls a tool."""
    return f"TOOL: {tool}({', '.join(f'{name}={json.dumps(value)}' for name, value in args.items())})"


def write(path: str, content: str) -> str:
    return call("filesystem", operation="write", path=path, content=content)


def values(fork: ForkScored) -> dict[str, float | None]:
    """The scores by component; None: not applicable."""
    return {score.component: score.value for score in fork.scores}


def why(fork: ForkScored, component: str) -> str:
    return next(score.explanation for score in fork.scores if score.component == component)


def content(*places: Path) -> dict[str, bytes]:
    """The files below these directories."""
    return {str(path): path.read_bytes() for place in places for path in place.rglob("*") if path.is_file()}


async def test_a_candidate_is_scored_as_if_it_had_been_the_act(recorded: Recorded) -> None:
    """A new file earns what a change earns, the same content no more than a rest, a failure and an invalid reply less;
    they come to a total by the weights of the recorded act."""
    new, same, gone, bad, rest = await recorded.fork(
        write("b.md", "new words\n"),
        write("notes/a.md", "first\nsecond\n"),
        call("filesystem", operation="read", path="missing.md"),
        "no action",
        "DO_NOTHING: rest",
    )

    assert values(new) == {"format": 0.5, "execution": 1.0, "goal": None}
    assert new.effect is not None
    assert (new.effect.kind, new.effect.paths) == ("change", ("b.md",))
    assert new.total == pytest.approx(0.30 * 0.5 + 0.25 * 1.0)
    assert new.coverage == pytest.approx(0.55 / 0.70)
    assert values(same)["execution"] == 0.2
    assert values(gone)["execution"] == -0.3
    assert values(bad) == {"format": -1.0, "execution": 0.0, "goal": None}
    assert values(rest)["execution"] == 0.2
    assert [one.executed for one in (new, same, gone, bad, rest)] == [True, True, True, False, False]


async def test_a_candidate_stands_to_the_goals_as_the_act_did(recorded: Recorded) -> None:
    """Where the act says what was open, a candidate is paid by the same rules: a rest while a goal was open earns less,
    a call that failed less than that, and a change nothing where no more were paid."""
    replies = (
        "DO_NOTHING: rest",
        call("filesystem", operation="read", path="missing.md"),
        write("b.md", "new words\n"),
    )
    paid, unpaid = [
        await recorded.fork(*replies, found=await recorded.cycle(GoalWork(open=1, allowance=left))) for left in (5, 0)
    ]

    assert [values(one)["execution"] for one in paid] == [-0.2, -0.8, 1.0]
    assert [values(one)["execution"] for one in unpaid] == [-0.2, -0.8, -0.8]


async def test_what_needs_the_history_is_not_applicable(recorded: Recorded) -> None:
    """Whether a reading or a listing brought something new rests on what the agent knew then, and that is said."""
    read, ran, tested = await recorded.fork(
        call("filesystem", operation="read", path="notes/a.md"),
        call("shell", command="cat notes/a.md"),
        call("shell", command="python3 -m unittest"),
    )

    assert [values(one)["execution"] for one in (read, ran, tested)] == [None, None, None]
    assert "what the agent knew then" in why(read, "execution")
    assert "the agent's history" in why(tested, "execution")
    assert read.outcome.output.text == "first\nsecond\n"


async def test_goals_are_checked_in_the_copy(recorded: Recorded) -> None:
    """A candidate that reaches a goal of then earns it, whatever the goal's deadline is now; one that does not is
    neutral."""
    (recorded.workspace / "test_sum.py").write_text(
        "import unittest\nfrom total import total\n"
        "class T(unittest.TestCase):\n    def test_it(self): self.assertEqual(total([1, 2]), 3)\n"
    )
    file = Goal.model_validate(
        {"id": "f", "statement": "b", "check": FileCheck(path="b.md"), "deadline": "2020-01-01T00:00:00Z"}
    )
    tests = Goal(id="t", statement="tests", check=TestsCheck(command="python3 -m unittest -q test_sum"))
    recorded.goals = tuple(GoalThen(goal=goal, best=0.0, measure=0.0) for goal in (file, tests))

    reaches, passes, rests = await recorded.fork(
        write("b.md", "x y z\n"),
        write("total.py", "def total(numbers):\n    return sum(numbers)\n"),
        "DO_NOTHING: rest",
    )

    assert [check.outcome for check in reaches.goals] == ["achieved", "neutral"]
    assert [check.outcome for check in passes.goals] == ["neutral", "achieved"]
    assert [values(one)["goal"] for one in (reaches, passes, rests)] == [2.0, 2.0, 0.0]
    assert not (recorded.workspace / "b.md").exists()


async def test_nothing_outside_of_the_copy_changes(recorded: Recorded) -> None:
    """Home, workspace and all beside them hold the same bytes after candidates that write, delete, note and answer, and
    no copy is left."""
    recorded.message = ("m1", "hello?")
    found = await recorded.cycle()
    recorded.scripted(["nothing"])
    before = content(recorded.place)

    made = await recorded.fork(
        write("notes/a.md", "other\n"),
        call("filesystem", operation="delete", path="notes/a.md"),
        call("shell", command="rm -rf /workspace/* ; echo x > /tmp/x; echo y > $HOME/y; mkdir -m 0 closed"),
        call("notes", operation="remember", text="a note"),
        call("reply", text="hello!"),
        call("git", operation="status"),
        found=found,
    )

    after = content(recorded.place)
    script = str(recorded.place / "script.txt")
    assert {name: data for name, data in after.items() if name != script} == {
        name: data for name, data in before.items() if name != script
    }
    assert list(found.shelf.folder.glob("copy-*")) == []
    assert [one.executed for one in made] == [True] * 6
    assert made[4].outcome.answered == "m1"


async def test_a_program_cannot_leave_the_copy(recorded: Recorded) -> None:
    """Neither a path upwards, nor a link that the workspace holds, nor the machine's files lead out of it."""
    target = recorded.place / "target.txt"
    target.write_text("mine")
    (recorded.workspace / "out").symlink_to(target)
    (recorded.workspace / "up").symlink_to("../..")
    paths = ["out", "up/x", "/workspace/../../x", str(target), "/etc/passwd", str(recorded.workspace / "x")]

    made = await recorded.fork(
        call("shell", command="; ".join(f"echo x > {path}" for path in paths)),
        write("out", "x"),
        write("up/x", "x"),
        write("../x", "x"),
    )

    assert [one.outcome.status for one in made] == ["error", "blocked", "blocked", "blocked"]
    assert target.read_text() == "mine"
    assert sorted(path.name for path in recorded.workspace.iterdir()) == ["notes", "out", "up"]
    assert not (recorded.place / "x").exists()


async def test_a_program_reaches_no_network(recorded: Recorded) -> None:
    """A connection to a server of this machine fails inside of a fork."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"

        [made] = await recorded.fork(call("shell", command=f'python3 -c "{program}"'))

        assert made.outcome.status == "error"
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_a_program_that_hangs_or_forks_is_ended_with_its_group(recorded: Recorded) -> None:
    """At its limits a program ends with everything that it started, also what left its session, and the copy goes."""
    recorded.settings = {"tools": {"timeout": 1.0, "processes": 16}}
    found = await recorded.cycle()

    hangs, leaves, forks = await recorded.fork(
        call("shell", command="sleep 4713"),
        call("shell", command="setsid sleep 4714 & nohup sleep 4714 & exit 0"),
        call("shell", command="f() { f | f & }; f; sleep 4715"),
        found=found,
    )

    assert hangs.outcome.status == "timeout"
    assert leaves.outcome.status == "success"
    assert forks.outcome.status in ("error", "timeout")
    running = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in running if line in ("sleep 4713", "sleep 4714", "sleep 4715")]
    assert list(found.shelf.folder.glob("copy-*")) == []


async def test_a_fork_that_is_cancelled_leaves_nothing(recorded: Recorded) -> None:
    """Cancelled while a program runs, the fork ends it and removes its copy."""
    found = await recorded.cycle()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await recorded.fork(call("shell", command="sleep 4716"), found=found)

    running = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in running if line.startswith("sleep 4716")]
    assert list(found.shelf.folder.glob("copy-*")) == []


async def test_what_nothing_takes_back_is_not_executed(recorded: Recorded) -> None:
    """Tools that work beyond the workspace, that declare nothing, that are not built in, and those that a person has to
    approve are not run: format is scored, the rest is not applicable, and the reason is said."""
    recorded.declares("post", "world")
    recorded.declares("own", "workspace")
    recorded.settings = {"tools": {"policy": [{"tool": "git", "do": "ask"}, {"tool": "notes", "do": "deny"}]}}

    world, own, asks, denied = await recorded.fork(
        call("post", text="x"),
        call("own", text="x"),
        call("git", operation="status"),
        call("notes", operation="recall", text="x"),
    )

    assert [values(one) for one in (world, own, asks)] == [{"format": 0.5, "execution": None, "goal": None}] * 3
    assert "outside of the workspace" in world.why_not
    assert "no built-in tool" in own.why_not
    assert "approval" in asks.why_not
    assert [one.outcome.status for one in (world, own, asks, denied)] == ["blocked"] * 4
    assert values(denied)["execution"] == -0.3
    assert denied.why_not == ""


async def test_without_a_sandbox_no_program_is_run(recorded: Recorded) -> None:
    """With `tools.sandbox: off` neither commands nor goals' checks that are programs run; file tools do."""
    check = TestsCheck(command=f"touch {recorded.place}/ran")
    recorded.goals = (GoalThen(goal=Goal(id="t", statement="t", check=check), best=0.0, measure=0.0),)
    recorded.settings = {"tools": {"sandbox": "off"}}

    ran, wrote = await recorded.fork(call("shell", command="ls"), write("b.md", "new\n"))

    assert "tools.sandbox is off" in ran.why_not
    assert wrote.executed
    assert values(wrote) == {"format": 0.5, "execution": 1.0, "goal": None}
    assert "tools.sandbox is off" in why(wrote, "goal")
    assert not (recorded.place / "ran").exists()


async def test_the_same_fork_twice_is_once(recorded: Recorded) -> None:
    """The id of a candidate follows from the act, the fork and the seed: seeds that are recorded are not made again;
    another mind or another workspace makes another fork."""
    found = await recorded.cycle()
    settings = recorded.scripted(["DO_NOTHING: one", "DO_NOTHING: two", "DO_NOTHING: three"])

    async with fork_minds(settings, recorded.home, "echo") as minds:
        first = Fork(ForkRequest(found, (0, 1)), minds, settings, recorded.values)
        made = [one async for one in first.candidates(first.missing(()))]
        again = Fork(ForkRequest(found, (0, 1, 2)), minds, settings, recorded.values)

        assert again.missing(made) == [2]
        assert again.own(made) == {0: made[0], 1: made[1]}
    assert len({one.id for one in made}) == 2
    assert len({one.fork for one in made}) == 1
    warmer = settings.model_copy(update={"mind": settings.mind.model_copy(update={"temperature": 1.5})})
    async with fork_minds(warmer, recorded.home, "echo") as minds:
        assert Fork(ForkRequest(found, (0,)), minds, warmer, recorded.values).missing(made) == [0]
    (recorded.workspace / "more.md").write_text("more\n")
    changed = await recorded.cycle()
    async with fork_minds(settings, recorded.home, "echo") as minds:
        assert Fork(ForkRequest(changed, (0,)), minds, settings, recorded.values).missing(made) == [0]


async def test_a_fork_says_what_it_belongs_to(recorded: Recorded) -> None:
    """A candidate names the act's cycle, the prompt, the workspace, its mind and its seed."""
    found = await recorded.cycle()

    [made] = await recorded.fork("DO_NOTHING: rest", found=found)

    assert found.decision is not None
    assert (made.cycle, made.action_id, made.causation_id) == (3, found.act.action_id, found.act.id)
    assert made.workspace == found.decision.tree
    assert made.mind == "scripted"
    assert made.decoding is not None
    assert len(made.decoding.prompt_sha256) == 64
    assert made.policy is not None
    assert made.weights == "w1"


async def test_the_reflex_mind_forks_with_what_it_has_learnt(recorded: Recorded) -> None:
    """Seeds draw different replies from the state as it was, the same seeds the same; nothing of the home changes."""
    found = await recorded.cycle()
    settings = recorded.scripted([]).model_copy(
        update={"mind": recorded.scripted([]).mind.model_copy(update={"kind": "reflex", "script": None})}
    )
    before = content(recorded.place)

    async with fork_minds(settings, recorded.home, "echo") as minds:
        fork = Fork(ForkRequest(found, tuple(range(1, 9))), minds, settings, recorded.values)
        made = [one async for one in fork.candidates(fork.missing(()))]
        again = [one async for one in fork.candidates(fork.missing(()))]

    assert len({one.raw for one in made}) > 1
    assert [one.raw for one in again] == [one.raw for one in made]
    assert all(one.action.valid for one in made)
    assert content(recorded.place) == before


async def test_a_script_without_such_a_line_is_told(recorded: Recorded) -> None:
    """A seed beyond the end of a script is one sentence."""
    found = await recorded.cycle()
    settings = recorded.scripted(["DO_NOTHING: one"])

    async with fork_minds(settings, recorded.home, "echo") as minds:
        fork = Fork(ForkRequest(found, (5,)), minds, settings, recorded.values)
        with pytest.raises(UsageError, match=r"seed 5.*no more than 1 replies"):
            await anext(fork.candidates(fork.missing(())))


async def test_a_cycle_that_was_not_kept_is_told(recorded: Recorded) -> None:
    """Without its workspace a cycle cannot be forked; the sentence names the setting."""
    recorded.settings = {"forks": {"mib": 1}}
    (recorded.workspace / "large").write_bytes(bytes(300_000))
    too_large = await recorded.cycle()

    with pytest.raises(ConchError, match=r"more than 0\.25 MiB \(forks\.mib\)"):
        too_large.kept()
    for file in too_large.shelf.records.iterdir():
        file.unlink()
    with pytest.raises(ConchError, match=r"forks\.snapshots: always"):
        (await _gone(recorded)).kept()


async def _gone(recorded: Recorded) -> object:
    found = await recorded.cycle()
    return type(found)(found.agent, found.cycle, found.act, found.experience, found.shelf, None)
