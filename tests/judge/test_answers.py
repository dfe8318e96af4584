"""The file of a judge: what it was answered, and how much it was asked."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.errors import JudgeError
from conch.judge.answer import Judgement
from conch.judge.answers import HOUR, PROMPTS, JudgeCache
from conch_schemas import PromptMessage

CALM = Judgement(0.75, "Calm.")
PROMPT = (PromptMessage(role="user", content="What now? 静か"),)


class Clock:
    """The wall's clock, set by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def open_(tmp_path: Path, clock: Clock) -> AsyncIterator[Callable[..., JudgeCache]]:
    """The file of this test, opened once more."""
    opened: list[JudgeCache] = []

    def make(entries: int = 100, **more: Any) -> JudgeCache:
        opened.append(JudgeCache(tmp_path / "judges" / "tone.db", entries, clock=clock, **more))
        return opened[-1]

    yield make
    for one in opened:
        await one.close()
        await one.close()


async def test_what_was_answered_is_there_after_a_restart(open_: Callable[..., JudgeCache]) -> None:
    """JudgeCache and prompts; the same answer twice is one."""
    first = open_()
    await first.put("k", CALM)
    await first.put("k", Judgement(0.1, "Another."))
    await first.put_prompts([("act", PROMPT)])
    await first.close()

    second = open_()

    assert await second.get("k") == CALM
    assert await second.get("other") is None
    assert await second.prompt("act") == [("user", "What now? 静か")]
    assert await second.prompt("another") == []


async def test_a_closed_file_opens_again(open_: Callable[..., JudgeCache]) -> None:
    """A consumer that ends and begins again keeps its judge."""
    answers = open_()
    await answers.put("k", CALM)
    await answers.close()

    assert await answers.get("k") == CALM


async def test_the_answer_used_longest_ago_goes(open_: Callable[..., JudgeCache]) -> None:
    """Never more than so many; what was looked up just now stays."""
    answers = open_(entries=3)
    for key in "abc":
        await answers.put(key, CALM)
    await answers.get("a")

    await answers.put("d", CALM)

    assert [key for key in "abcd" if await answers.get(key)] == ["a", "c", "d"]


async def test_fewer_entries_than_before_are_kept_at_the_next_answer(open_: Callable[..., JudgeCache]) -> None:
    """A bound that was lowered holds; 0 remembers nothing new."""
    for key in "abcdef":
        await open_().put(key, CALM)

    await open_(entries=2).put("g", CALM)
    await open_(entries=0).put("h", CALM)

    assert [key for key in "abcdefgh" if await open_().get(key)] == ["f", "g"]


@settings(max_examples=30, deadline=None)
@given(keys=st.lists(st.sampled_from("abcdefgh"), max_size=40), entries=st.integers(1, 5))
def test_the_file_never_holds_more_than_its_bound(
    tmp_path_factory: pytest.TempPathFactory, keys: Any, entries: int
) -> None:
    """Whatever is put and looked up, in whatever order: the last used ones are there, and no other."""
    import asyncio

    async def use() -> None:
        answers, kept = JudgeCache(tmp_path_factory.mktemp("judges") / "j.db", entries), list[str]()
        for key in keys:
            await answers.put(key, CALM) if await answers.get(key) is None else None
            kept = [*(one for one in kept if one != key), key][-entries:]
        found = [key for key in "abcdefgh" if await answers.get(key)]
        await answers.close()
        assert found == sorted(kept)

    asyncio.run(use())


async def test_an_hour_holds_so_many_questions(open_: Callable[..., JudgeCache], clock: Clock) -> None:
    """A sliding hour: as one falls out of it, one more may be asked. Beyond, the sentence says since when and where."""
    answers = open_()
    for _ in range(3):
        await answers.count(3)
        clock.now += 60

    with pytest.raises(
        JudgeError, match=r"budget of 3 questions an hour is used up, until \d\d:\d\d: see calls_per_hour"
    ):
        await answers.count(3)
    clock.now += HOUR - 180
    await answers.count(3)
    with pytest.raises(JudgeError, match="used up"):
        await answers.count(3)


async def test_the_budget_survives_a_restart_and_is_shared(open_: Callable[..., JudgeCache]) -> None:
    """Whoever opens the file counts on."""
    one, other = open_(), open_()
    await one.count(2)
    await other.count(2)
    await one.close()

    for answers in (one, other, open_()):
        with pytest.raises(JudgeError, match="used up"):
            await answers.count(2)


async def test_a_budget_of_none_asks_nothing(open_: Callable[..., JudgeCache]) -> None:
    """0 questions an hour: a judge that lives of what it remembers."""
    with pytest.raises(JudgeError, match="budget of 0 questions an hour is used up: see"):
        await open_().count(0)


async def test_a_clock_that_was_set_back_locks_nobody_out(open_: Callable[..., JudgeCache], clock: Clock) -> None:
    """What lies in the future by it counts as asked now, and is free an hour later."""
    answers = open_()
    await answers.count(1)
    clock.now -= 1e6

    with pytest.raises(JudgeError, match="used up"):
        await answers.count(1)
    clock.now += HOUR

    await answers.count(1)


async def test_only_the_newest_prompts_wait_for_their_acts(open_: Callable[..., JudgeCache]) -> None:
    """Of acts that never came."""
    answers = open_()

    await answers.put_prompts([(str(number), PROMPT) for number in range(PROMPTS + 2)])

    assert [len(await answers.prompt(str(number))) for number in (0, 1, 2, PROMPTS + 1)] == [0, 0, 1, 1]


@pytest.mark.parametrize("damage", ["garbage", "torn", "strange", "newer"])
async def test_a_file_that_cannot_be_read_is_set_aside(
    open_: Callable[..., JudgeCache], tmp_path: Path, damage: str
) -> None:
    """One sentence, and it begins anew; the damaged file is kept, under another name."""
    file, said = tmp_path / "judges" / "tone.db", list[str]()
    first = open_()
    for number in range(500):
        await first.put(str(number), Judgement(0.5, "x" * 400))
    await first.close()
    if damage == "garbage":
        file.write_bytes(b"not a database" * 1000)
    elif damage == "torn":
        found = file.read_bytes()
        file.write_bytes(found[:8192] + b"\xff" * (len(found) - 16384) + found[-8192:])
    else:
        with sqlite3.connect(file) as database:
            database.execute("PRAGMA user_version = 99" if damage == "newer" else "PRAGMA application_id = 7")
        database.close()

    answers = open_(warn=said.append)
    await answers.put("k", CALM)

    assert await answers.get("k") == CALM
    [sentence] = said
    assert f"{file} cannot be read" in sentence
    assert "set aside as tone.db.damaged-1" in sentence
    assert file.with_name("tone.db.damaged-1").exists()


async def test_a_file_damaged_while_it_is_open_is_set_aside(open_: Callable[..., JudgeCache], tmp_path: Path) -> None:
    """Also the second time, beside the first."""
    said = list[str]()
    for _ in range(2):
        answers = open_(warn=said.append)
        for number in range(300):
            await answers.put(str(number), Judgement(0.5, "x" * 400))
        await answers.close()
        (tmp_path / "judges" / "tone.db").write_bytes(b"\x00" * 100_000)
        await answers.put("k", CALM)
        assert await answers.get("k") == CALM
        await answers.close()

    assert len(said) == 2
    assert (tmp_path / "judges" / "tone.db.damaged-2").exists()


async def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """As the reason of a score that could not be made; an answer that was paid for is not lost by it."""
    (tmp_path / "judges").write_text("a file where a directory should be")
    answers = JudgeCache(tmp_path / "judges" / "tone.db", 10)

    await answers.put("k", CALM)
    with pytest.raises(JudgeError, match=r"tone.db cannot be used .*: make room or mend its permissions"):
        await answers.count(10)

    await answers.close()


PAID = """
import asyncio, os, signal, sys
from pathlib import Path
from conch.judge.answer import Judgement
from conch.judge.answers import JudgeCache

async def main():
    answers = JudgeCache(Path(sys.argv[1]), 1000)
    for number in range(50):
        await answers.count(50)
        await answers.put(str(number), Judgement(0.5, "paid"))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_what_was_paid_for_survives_a_kill(tmp_path: Path) -> None:
    """Killed right after the last answer: every answer is there, and every question counts."""
    file = tmp_path / "tone.db"
    killed = subprocess.run([sys.executable, "-c", PAID, str(file)], timeout=60, check=False)
    assert killed.returncode == -9

    answers = JudgeCache(file, 1000)

    assert [await answers.get(str(number)) for number in range(50)] == [Judgement(0.5, "paid")] * 50
    with pytest.raises(JudgeError, match="used up"):
        await answers.count(50)
    await answers.close()
