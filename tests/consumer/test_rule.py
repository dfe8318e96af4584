"""A rule in a process of its own: whatever it does, a score comes back and nobody else is harmed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from conch.bus import MemoryBus
from conch.consumer.discover import Plugin
from conch.consumer.rule import RuleWorker, rule_consumer
from conch_schemas import Cut, Outcome, RewardAssigned, Score

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
        plugin = Plugin("rule", "tested", str(path), "7", doc="What it is.\nMore.")
        made.append(RuleWorker(plugin, timeout=timeout, memory_mib=memory_mib))
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def test_a_value_in_its_range_is_scored(worker: Make, act: Any) -> None:
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


ODD = [
    ("return None", "not_applicable", "not applicable"),
    ("pass", "not_applicable", "not applicable"),
    ("return float('nan')", "error", "'nan'"),
    ("return math.inf", "error", "'inf'"),
    ("return 10 ** 400", "error", "OverflowError"),
    ("return 'good'", "error", "good"),
    ("return True", "error", "'True'"),
    ("return [0.5]", "error", "[0.5]"),
    ("return 1.5", "error", "outside its range 0..1"),
    ("return -0.1", "error", "outside its range"),
    ("raise ValueError('no\\x1b[31m')", "error", "ValueError: no�[31m"),
    ("raise SystemExit(3)", "error", "SystemExit: 3"),
    ("raise KeyboardInterrupt", "error", "KeyboardInterrupt"),
    ("sys.exit()", "error", "SystemExit"),
    ("os._exit(5)", "error", "ended its process (status 5)"),
    ("os.kill(os.getpid(), 9)", "error", "ended its process (signal SIGKILL)"),
    ("return (lambda f: f(f))(lambda f: f(f))", "error", "RecursionError"),
    ("x = []\nwhile True: x.append(bytearray(10_000_000))", "error", "MemoryError"),
    ("class Odd:\n    def __repr__(self): raise ValueError('no words')\nreturn Odd()", "error", "no words"),
]


async def test_anything_else_is_said_and_costs_nobody_else_anything(worker: Make, act: Any) -> None:
    """The status, no value, and why; after each the next act is scored again."""
    choices = [f"if action.cycle == {2 * n + 1}:\n    " + ODD[n][0].replace("\n", "\n    ") for n in range(len(ODD))]
    one = worker("if action.cycle % 2 == 0: return 0.5\n" + "\n".join(choices))

    for number, (body, status, says) in enumerate(ODD):
        score = await one.score(act(2 * number + 1))
        assert (score.status, score.value) == (status, None), body
        assert says in score.explanation, body
        after = await one.score(act(2 * number + 2))
        assert (after.status, after.value) == ("scored", 0.5), body


async def test_a_rule_that_blocks_times_out_and_the_next_act_is_scored(worker: Make, act: Any) -> None:
    """Its process is ended with all that it started; starting a new one does not count as the rule's time."""
    one = worker("if action.cycle == 1:\n    os.fork()\n    while True: pass\nreturn 0.25", timeout=0.4)

    score = await one.score(act(1))
    left = [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
    after = await one.score(act(2))

    assert (score.status, score.value) == ("timeout", None)
    assert "0.4 s" in score.explanation
    assert [process for process in left if "conch.consumer.worker" in " ".join(process.cmdline())] == []
    assert (after.status, after.value) == ("scored", 0.25)


async def test_a_rules_own_timeout_counts(worker: Make, act: Any, tmp_path: Path) -> None:
    """The one that it declares, not the settings'."""
    (tmp_path / "own.py").write_text(HEAD + "def tested(action):\n    time.sleep(60)\n")
    plugin = Plugin("rule", "tested", str(tmp_path / "own.py"), "1", timeout=0.3)
    one = RuleWorker(plugin, timeout=60, memory_mib=512)

    assert (await one.score(act(1))).status == "timeout"


async def test_what_it_prints_is_no_score(worker: Make, act: Any) -> None:
    """Standard output is not where the answers are; a flood of it neither."""
    body = "print('{\"value\": 0.9}')\nsys.stdout.write('x' * 300_000)\nsys.stdout.flush()\nreturn 0.1"

    assert (await worker(body).score(act(1))).value == 0.1


async def test_a_rule_that_forks_answers_once(worker: Make, act: Any, until: Any) -> None:
    """Its child's answer is not taken for the next act's; its child ends."""
    one = worker("os.fork()\nreturn action.cycle / 10")

    assert [(await one.score(act(cycle))).value for cycle in (1, 2, 3)] == [0.1, 0.2, 0.3]
    assert one._process is not None
    children = psutil.Process(one._process.pid).children
    await until(lambda: all(child.status() == psutil.STATUS_ZOMBIE for child in children()))


async def test_an_answer_out_of_turn_is_not_taken(worker: Make, act: Any) -> None:
    """An answer bears the act's id: one that was written for another act is left out."""
    body = WRITE.format(b'{"id": "other", "value": 1.0}\n') + "return 0.5"

    assert (await worker(body).score(act(1))).value == 0.5


async def test_garbage_on_the_line_is_an_error(worker: Make, act: Any) -> None:
    """And the next act is scored."""
    one = worker("if action.cycle == 2: return 0.5\n" + WRITE.format(b"garbage\n") + "return 0.5")

    assert (await one.score(act(1))).status == "error"
    assert (await one.score(act(2))).value == 0.5


async def test_an_async_rule_is_awaited(act: Any, tmp_path: Path) -> None:
    """It may wait for something."""
    (tmp_path / "own.py").write_text(HEAD + "async def tested(action):\n    await asyncio.sleep(0)\n    return 0.75\n")
    one = RuleWorker(Plugin("rule", "tested", str(tmp_path / "own.py"), "1"), timeout=10, memory_mib=512)

    assert (await one.score(act(1))).value == 0.75
    await one.close()


async def test_numpys_numbers_are_numbers(worker: Make, act: Any) -> None:
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
async def test_a_file_that_broke_since_is_an_error(head: str, says: str, worker: Make, act: Any) -> None:
    """Each act says so; nothing hangs."""
    one = worker("pass", head=head)

    for cycle in (1, 2):
        score = await one.score(act(cycle))
        assert score.status == "error"
        assert says in score.explanation


async def test_a_process_that_ended_between_two_acts_is_started_again(worker: Make, act: Any, until: Any) -> None:
    """The act is not to blame for it."""
    one = worker("return 0.5")
    await one.score(act(1))
    assert one._process is not None
    process = one._process
    os.kill(process.pid, 9)
    await until(lambda: process.returncode is not None)

    assert (await one.score(act(2))).value == 0.5


async def test_a_large_act_goes_through(worker: Make, act: Any) -> None:
    """Hundreds of kilobytes on one line."""
    output = Cut(text="é\x00" * 60_000, length=120_000, sha256="0" * 64)
    big = act(1, outcome=Outcome(status="success", output=output))

    assert (await worker("return len(action.outcome.output.text) / 1_000_000").score(big)).value == 0.12


async def test_a_rules_score_is_published_for_every_act(
    tmp_path: Path, act: Any, run: Any, publish: Any, facts: Any, until: Any
) -> None:
    """End to end: the act in, `reward.assigned` out, with the rule as its scorer; what fails is a status, no letter."""
    path = tmp_path / "rules.py"
    path.write_text(HEAD + "def tested(action):\n    return 1 / (action.cycle - 2) if action.cycle != 4 else None\n")
    spec, worker = rule_consumer(Plugin("rule", "tested", str(path), "3"), timeout=10, memory_mib=512)

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
