"""A rule in a process of its own: whatever it does, a score comes back and nobody else is harmed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import structlog

from conch.bus import MemoryBus
from conch.consumer.plugins.rule_process import RuleWorker, rule_consumer
from conch.processes import PluginProcess, why_none
from conch.processes.plugin_process import HEARD
from conch.rules import RuleInfo
from conch_schemas import Cut, Outcome, RewardAssigned, Score

if TYPE_CHECKING:
    from tests.conftest import MakeAct, Until
    from tests.consumer.conftest import Facts, Publish, Run


HEAD = "from conch import rule\nimport os, sys, time, math, asyncio\n@rule()\n"
WRITE = "for fd in range(3, 10):\n    try: os.write(fd, {!r})\n    except OSError: pass\n"
Make = Callable[..., RuleWorker]


@pytest.fixture
async def worker(tmp_path: Path) -> AsyncIterator[Make]:
    """Make the worker of a rule with this body."""
    made: list[RuleWorker] = []

    def make(body: str, *, timeout: float = 10.0, head: str = HEAD, memory_mib: int = 512) -> RuleWorker:
        path = tmp_path / f"rules_{len(made)}.py"
        path.write_text(head + "def tested(action):\n    " + body.replace("\n", "\n    ") + "\n")
        plugin = RuleInfo("tested", "7", origin=str(path), doc="What it is.\nMore.")
        made.append(RuleWorker(plugin, timeout=timeout, memory_mib=memory_mib))
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def test_a_value_in_its_range_is_scored(worker: Make, act: MakeAct) -> None:
    """With the rule's name, version and range, explained by its first line."""
    score = await worker("return 1.0 if action.cycle == 3 else 0.5").score(act(3))

    assert score == Score(
        component="tested",
        value=1.0,
        range=(0.0, 1.0),
        status="scored",
        explanation="What it is.",
        scorer="tested",
        version="7",
    )


@pytest.mark.parametrize(
    ("body", "value", "why"),
    [
        ("return True", 1.0, "What it is."),
        ("return False", 0.0, "What it is."),
        ("return 0.5, 'half of \\x1b[31mit\\nis there'", 0.5, "half of �[31mit is there"),
        ("return True, 'x' * 9999", 1.0, "x" * 500),
    ],
)
async def test_a_rule_says_a_truth_value_or_a_value_with_its_reason(
    body: str, value: float, why: str, worker: Make, act: MakeAct
) -> None:
    """True is 1, False is 0; the reason is the score's explanation, as safe text of one line."""
    score = await worker(body).score(act(1))

    assert (score.status, score.value, score.explanation) == ("scored", value, why)


ODD = [
    ("return None", "not_applicable", "not applicable"),
    ("pass", "not_applicable", "not applicable"),
    ("return float('nan')", "error", "returned nan, not a finite number"),
    ("return math.inf", "error", "returned inf, not a finite number"),
    ("return 10 ** 400", "error", "not a finite number"),
    ("return 'good'", "error", "good"),
    ("return (True, 3)", "error", "(True, 3)"),
    ("return 1.5, 'too much'", "error", "outside its range 0..1"),
    ("return None, 'no reply\\x1b[31m to score'", "not_applicable", "no reply�[31m to score"),
    ("return [0.5]", "error", "[0.5]"),
    ("return 1.5", "error", "outside its range 0..1"),
    ("return -0.1", "error", "outside its range"),
    ("raise ValueError('no\\x1b[31m')", "error", "ValueError: no�[31m"),
    ("raise SystemExit(3)", "error", "SystemExit: 3"),
    ("raise KeyboardInterrupt", "error", "KeyboardInterrupt"),
    ("sys.exit()", "error", "SystemExit"),
    ("raise BaseException('the root')", "error", "BaseException: the root"),
    ("raise GeneratorExit", "error", "GeneratorExit"),
    (
        "class Odd(Exception):\n    def __str__(self): raise SystemExit\nraise Odd",
        "error",
        "its words raise SystemExit",
    ),
    ("return 10 ** 300", "error", "outside its range"),
    ("return -(10 ** 5000)", "error", "a value of the type int, not a finite number"),
    ("return 0.5 + 0j", "error", "(0.5+0j)"),
    ("return (x for x in [0.5])", "error", "generator"),
    ("return input()", "error", "EOFError"),
    ("os.closerange(0, 64)", "error", "ended its process"),
    ("sys.stdout.close(); sys.stderr.close(); raise ValueError('in silence')", "error", "in silence"),
    ("import subprocess\nfor _ in range(65): subprocess.Popen(['sleep', '600'])", "error", "65 threads and processes"),
    ("os._exit(5)", "error", "ended its process (status 5)"),
    ("os._exit(255)", "error", "ended its process (status 255)"),
    ("os.kill(os.getpid(), 9)", "error", "ended its process (signal SIGKILL)"),
    ("return (lambda f: f(f))(lambda f: f(f))", "error", "RecursionError"),
    ("x = []\nwhile True: x.append(bytearray(10_000_000))", "error", "MemoryError"),
    ("class Odd:\n    def __repr__(self): raise ValueError('no words')\nreturn Odd()", "error", "of the type Odd"),
]


async def test_anything_else_is_said_and_costs_nobody_else_anything(worker: Make, act: MakeAct) -> None:
    """The status, no value, and why; after each the next act is scored again."""
    choices = [f"if action.cycle == {2 * n + 1}:\n    " + ODD[n][0].replace("\n", "\n    ") for n in range(len(ODD))]
    one = worker("if action.cycle % 2 == 0: return 0.5\n" + "\n".join(choices))

    for number, (body, status, says) in enumerate(ODD):
        score = await one.score(act(2 * number + 1))
        assert (score.status, score.value) == (status, None), body
        assert says in score.explanation, body
        after = await one.score(act(2 * number + 2))
        assert (after.status, after.value) == ("scored", 0.5), body


async def test_an_error_names_the_line_of_the_rules_file(worker: Make, act: MakeAct, tmp_path: Path) -> None:
    """The last of its lines that the error came through, also where a library raised it, awaited or not; none for what
    the runtime makes of its answer. However long the words are, the line stands."""
    one = worker("if action.cycle == 1: return action.rww\nimport json\nif action.cycle == 2: json.loads('{')\n"
                 "if action.cycle == 3: raise ValueError('w' * 2000)\nreturn 1, 2")  # fmt: skip
    words = [(await one.score(act(cycle))).explanation for cycle in range(1, 5)]
    [file] = tmp_path.glob("*.py")
    text = file.read_text().splitlines()
    lines = [1 + next(n for n, line in enumerate(text) if what in line) for what in ("rww", "loads", "* 2000")]

    for said, line in zip(words[:3], lines, strict=True):
        assert said.endswith(f" ({file.name}, line {line})")
        assert len(said) <= 500
    assert words[0].startswith("AttributeError: ")
    assert ", line " not in words[3]


async def test_a_rule_that_blocks_times_out_and_the_next_act_is_scored(worker: Make, act: MakeAct) -> None:
    """Its process is ended with all that it started; starting a new one does not count as the rule's time."""
    one = worker("if action.cycle == 1:\n    os.fork()\n    while True: pass\nreturn 0.25", timeout=0.4)

    score = await one.score(act(1))
    left = [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
    after = await one.score(act(2))

    assert (score.status, score.value) == ("timeout", None)
    assert "0.4 s" in score.explanation
    assert [process for process in left if "conch.consumer.plugins.rule_worker" in " ".join(process.cmdline())] == []
    assert (after.status, after.value) == ("scored", 0.25)


async def test_a_rules_own_timeout_counts(worker: Make, act: MakeAct, tmp_path: Path) -> None:
    """The one that it declares, not the settings'."""
    (tmp_path / "own.py").write_text(HEAD + "def tested(action):\n    time.sleep(60)\n")
    plugin = RuleInfo("tested", "1", origin=str(tmp_path / "own.py"), timeout=0.3)
    one = RuleWorker(plugin, timeout=60, memory_mib=512)

    assert (await one.score(act(1))).status == "timeout"


@pytest.mark.parametrize("alone", [True, False])
async def test_what_it_started_ends_with_it(
    alone: bool, worker: Make, act: MakeAct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child in a session of its own that holds the pipes, an orphan, a program: all are ended, and the end of the
    process is seen though they held its line open; with a namespace of its own and without."""
    if not alone:
        monkeypatch.setattr(sys.modules[PluginProcess.__module__], "own_namespace", lambda: None)
    elif why_none() is not None:
        pytest.skip(f"no process can have a namespace of its own here: {why_none()}")
    monkeypatch.setenv("STARTED_BY", str(tmp_path))
    body = (
        "def note(): open('{place}/' + str(time.time_ns()), 'w').close()\n"
        "if action.cycle > 2: return 0.25\n"
        "import subprocess\n"
        "program = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "note()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n        note()\n        time.sleep(600)\n"
        "    note()\n    time.sleep(600)\n"
        "while len(os.listdir('{place}')) < 3 * action.cycle: time.sleep(0.01)\n"
        "if action.cycle == 1: os._exit(3)\n"
        "time.sleep(600)"
    )
    (place := tmp_path / "noted").mkdir()
    one = worker(body.replace("{place}", str(place)), timeout=3.0)

    scores = [await one.score(act(cycle)) for cycle in (1, 2, 3)]
    await one.close()

    # In a namespace the orphans end with the process, so that its line is closed at once.
    assert [score.status for score in scores] == ["error" if alone else "timeout", "timeout", "scored"]
    assert len(list(place.iterdir())) == 6
    assert still_running(tmp_path) == []


def still_running(started_by: Path) -> list[int]:
    """Processes that bear the variable of this test, or its directory on their command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            ours = process.environ().get("STARTED_BY") == str(started_by) or str(started_by) in process.cmdline()
            found += [process.pid] if ours and process.status() != psutil.STATUS_ZOMBIE else []
    return found


async def test_a_flood_of_words_is_the_rules_own_harm(worker: Make, act: MakeAct) -> None:
    """It waits until what it prints is taken, at a walk: of that the log has the first pieces, made harmless."""
    one = worker("if action.cycle == 2: return 0.5\nwhile True: print('\\x1b[31m' + 'x' * 10_000)", timeout=1.5)

    with structlog.testing.capture_logs() as logged:
        scores = [await one.score(act(cycle)) for cycle in (1, 2)]

    assert [score.status for score in scores] == ["timeout", "scored"]
    said = [line["said"] for line in logged if line["event"] == "reward.rule_printed"]
    assert 0 < len(said) <= HEARD
    assert all(len(piece) <= 500 and "\x1b" not in piece for piece in said)


async def test_an_import_that_hangs_is_one_error_an_act(
    worker: Make, act: MakeAct, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was quick when it was found and hangs in the rule's process; as soon as it no longer does, acts are scored."""
    monkeypatch.setattr(sys.modules[RuleWorker.__module__], "START_SECONDS", 3.0)
    one = worker(
        "return 0.5",
        head=f"import os, time\nwhile os.path.exists({str(tmp_path)!r} + '/hang'): time.sleep(0.01)\n" + HEAD,
    )
    (tmp_path / "hang").touch()

    first = await one.score(act(1))
    (tmp_path / "hang").unlink()
    monkeypatch.setattr(sys.modules[RuleWorker.__module__], "START_SECONDS", 120.0)

    assert (first.status, first.value) == ("error", None)
    assert "still being imported after 3 s" in first.explanation
    assert (await one.score(act(2))).value == 0.5


async def test_a_rule_becomes_another_between_two_acts(act: MakeAct, tmp_path: Path, until: Until) -> None:
    """The act in hand is finished by the one before, with its version and range; the next is the new one's."""
    text = HEAD + (
        "def tested(action):\n    while action.cycle == 1 and not os.path.exists({go!r}): time.sleep(0.01)\n"
        "    return {value}\n"
    )
    go = str(tmp_path / "go")
    old = RuleInfo("tested", "1", origin="rules.py", text=text.format(go=go, value=0.25))
    new = RuleInfo("tested", "2", origin="rules.py", high=4.0, text=text.format(go=go, value=3.0))
    one = RuleWorker(old, timeout=10, memory_mib=512)
    first = asyncio.create_task(one.score(act(1)))
    await until(lambda: one._process is not None)
    one.become(new)
    Path(go).touch()

    scores = [await first, await one.score(act(2))]
    await one.close()

    said = [(score.value, score.version, score.range) for score in scores]
    assert said == [(0.25, "1", (0.0, 1.0)), (3.0, "2", (0.0, 4.0))]


async def test_threads_that_hold_on_are_ended(worker: Make, act: MakeAct) -> None:
    """Many of them, that is: one error that says so, and the next act has a process without them."""
    body = (
        "import threading\nif action.cycle == 2: return threading.active_count() / 10\n"
        "for _ in range(70): threading.Thread(target=time.sleep, args=(600,)).start()"
    )
    one = worker(body, memory_mib=16 * 1024)

    first, second = await one.score(act(1)), await one.score(act(2))

    assert first.status == "error"
    assert "70 threads and processes of it were still running: a rule ends what it begins" in first.explanation
    assert second.value == 0.1


async def test_what_it_prints_is_no_score(worker: Make, act: MakeAct) -> None:
    """Standard output is not where the answers are; a flood of it neither."""
    body = "print('{\"value\": 0.9}')\nsys.stdout.write('x' * 300_000)\nsys.stdout.flush()\nreturn 0.1"

    assert (await worker(body).score(act(1))).value == 0.1


async def test_a_rule_that_forks_answers_once(worker: Make, act: MakeAct, until: Until) -> None:
    """Its child's answer is not taken for the next act's; its child ends."""
    one = worker("os.fork()\nreturn action.cycle / 10")

    assert [(await one.score(act(cycle))).value for cycle in (1, 2, 3)] == [0.1, 0.2, 0.3]
    assert one._process is not None
    process = psutil.Process(one._process.pid)

    def answering() -> int:
        every = [process, *process.children(recursive=True)]
        workers = [each for each in every if each.status() != psutil.STATUS_ZOMBIE and "python" in each.name()]
        return len(workers)

    await until(lambda: answering() == 1)


async def test_an_answer_out_of_turn_is_not_taken(worker: Make, act: MakeAct) -> None:
    """An answer bears the act's id: one that was written for another act is left out."""
    body = WRITE.format(b'{"kind": "answered", "id": "other", "value": 1.0}\n') + "return 0.5"

    assert (await worker(body).score(act(1))).value == 0.5


async def test_garbage_on_the_line_is_an_error(worker: Make, act: MakeAct) -> None:
    """And the next act is scored."""
    one = worker("if action.cycle == 2: return 0.5\n" + WRITE.format(b"garbage\n") + "return 0.5")

    assert (await one.score(act(1))).status == "error"
    assert (await one.score(act(2))).value == 0.5


async def test_an_async_rule_is_awaited(act: MakeAct, tmp_path: Path) -> None:
    """It may wait for something."""
    (tmp_path / "own.py").write_text(HEAD + "async def tested(action):\n    await asyncio.sleep(0)\n    return 0.75\n")
    one = RuleWorker(RuleInfo("tested", "1", origin=str(tmp_path / "own.py")), timeout=10, memory_mib=512)

    assert (await one.score(act(1))).value == 0.75
    await one.close()


async def test_an_async_rule_harms_itself_alone(act: MakeAct, tmp_path: Path) -> None:
    """It blocks the loop, waits without end, leaves tasks that end or will not, raises what ends a loop: each costs one
    score at most, and what it leaves is gone before the next act."""
    cases = [
        ("time.sleep(60)", "timeout", None),
        ("await asyncio.Event().wait()", "timeout", None),
        ("asyncio.create_task(asyncio.sleep(600)); return 0.25", "scored", 0.25),
        ("asyncio.create_task(stubborn()); await asyncio.sleep(0); return 0.25", "timeout", None),
        ("raise KeyboardInterrupt", "error", None),
        ("asyncio.create_task(fatal()); await asyncio.sleep(1); return 0.25", "error", None),
        ("asyncio.get_running_loop().stop(); await asyncio.sleep(60)", "error", None),
        ("return asyncio.sleep(0)", "error", None),
    ]
    head = HEAD.replace("@rule()\n", "") + (
        "async def stubborn():\n    while True:\n        try: await asyncio.sleep(600)\n"
        "        except asyncio.CancelledError: pass\n"
        "async def fatal(): raise SystemExit(3)\n@rule()\nasync def tested(action):\n"
    )
    lines = [f"    if action.cycle == {2 * number + 1}: {body}\n" for number, (body, _, _) in enumerate(cases)]
    (tmp_path / "own.py").write_text(head + "".join(lines) + "    return len(asyncio.all_tasks()) / 10\n")
    one = RuleWorker(RuleInfo("tested", "1", origin=str(tmp_path / "own.py")), timeout=1.0, memory_mib=512)

    for number, (body, status, value) in enumerate(cases):
        score = await one.score(act(2 * number + 1))
        assert (score.status, score.value) == (status, value), body
        after = await one.score(act(2 * number + 2))
        assert (after.status, after.value) == ("scored", 0.1), body
    await one.close()


async def test_numpys_numbers_are_numbers(worker: Make, act: MakeAct) -> None:
    """A scalar of numpy's is what it stands for, under the memory limit too; an array is not."""
    one = worker("import numpy\nreturn numpy.float32(0.5) if action.cycle == 1 else numpy.ones(3)", memory_mib=1024)

    assert (await one.score(act(1))).value == 0.5
    assert (await one.score(act(2))).status == "error"


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("raise RuntimeError('now broken')\n", "now broken"),
        ("import os; os._exit(4)\n", "status 4"),
        ("x = 1\n", "declares no"),
    ],
)
async def test_a_file_that_broke_since_is_an_error(head: str, says: str, worker: Make, act: MakeAct) -> None:
    """Each act says so; nothing hangs."""
    one = worker("pass", head=head)

    for cycle in (1, 2):
        score = await one.score(act(cycle))
        assert score.status == "error"
        assert says in score.explanation


async def test_a_process_that_ended_between_two_acts_is_started_again(worker: Make, act: MakeAct, until: Until) -> None:
    """The act is not to blame for it."""
    one = worker("return 0.5")
    await one.score(act(1))
    assert one._process is not None
    process = one._process
    os.kill(process.pid, 9)
    await until(lambda: process.returncode is not None)

    assert (await one.score(act(2))).value == 0.5


async def test_a_large_act_goes_through(worker: Make, act: MakeAct) -> None:
    """Hundreds of kilobytes on one line."""
    output = Cut(text="é\x00" * 60_000, length=120_000, sha256="0" * 64)
    big = act(1, outcome=Outcome(status="success", output=output))

    assert (await worker("return len(action.outcome.output.text) / 1_000_000").score(big)).value == 0.12


async def test_a_rules_score_is_published_for_every_act(
    tmp_path: Path, act: MakeAct, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """End to end: the act in, `reward.assigned` out, with the rule as its scorer; what fails is a status, no letter."""
    path = tmp_path / "rules.py"
    path.write_text(HEAD + "def tested(action):\n    return 1 / (action.cycle - 2) if action.cycle != 4 else None\n")
    spec, worker = rule_consumer(RuleInfo("tested", "3", origin=str(path)), timeout=10, memory_mib=512)

    async with MemoryBus() as bus:
        async with run(bus, spec) as runtime:
            for cycle in (2, 3, 4):
                await publish(bus, act(cycle))
            await until(lambda: runtime.tally.handled == 3)
        await worker.close()
        assigned = await facts(bus, RewardAssigned)

    assert [event.scores[0].status for event in assigned] == ["error", "scored", "not_applicable"]
    assert [event.scores[0].value for event in assigned] == [None, 1.0, None]
    assert {(event.scorer, event.version) for event in assigned} == {("tested", "3")}
    assert [event.causation_id for event in assigned] == [act(cycle).id for cycle in (2, 3, 4)]
    assert runtime.tally.letters == 0
