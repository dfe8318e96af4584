"""Consumers and dead letters, over a real server."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Bus, shared_subscription
from conch.cli import dlq
from conch.cli.common import CommonOptions, open_bus
from conch.config import Settings
from conch.consumer import ConsumerRuntime, ConsumerSpec, ServiceContext, bind
from conch.consumer.group.position import take_position
from conch.consumer.runtime.dead_letters import dead_letter, open_dead_letters, publish_dead_letter
from conch.consumer.runtime.loop import control_of
from conch.errors import BusUnreachableError, ConchError, UsageError
from conch.experience import SqliteStore
from conch.home import Home
from conch_schemas import (
    ActionTaken,
    ConsumerFailed,
    MessageReceived,
    NeedsChanged,
    RewardAssigned,
    decode,
    subject_filter,
)
from conch_services.needs.consumer import needs as needs_consumer

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Life, Publish


Printed = Callable[[], str]

PLUGIN = """
from pathlib import Path
from conch.consumer import consumer, follow
from conch_schemas import ActionTaken, MessageReceived

@consumer(ActionTaken, name="joy")
def joy(act):
    if Path({broken!r}).exists():
        raise ValueError("no joy \\x1b[2J")
    return follow(act, MessageReceived, consumer="joy", version="1", text="hurrah")
"""


BATCHES = """
from conch.consumer import consumer, follow
from conch_schemas import ActionTaken, MessageReceived

@consumer(ActionTaken, name="many", batch=16)
def many(acts):
    return [follow(act, MessageReceived, consumer="many", version="1", text="hurrah") for act in acts]
"""


@pytest.fixture
def joy(tmp_path: Path) -> Path:
    """A plug-in consumer that fails while the file `broken` is there."""
    file = tmp_path / "joy.py"
    file.write_text(PLUGIN.format(broken=str(tmp_path / "broken")))
    return file


async def fail(bus: Bus, publish: Any, act: ActionTaken, name: str, reason: str = "bad") -> ConsumerFailed:
    """Put an act and a dead letter for it on the stream."""
    await publish(bus, act)
    delivery = await bus.last(subject_filter(ActionTaken, "echo"))
    assert delivery is not None
    letter = dead_letter(ConsumerSpec(name, "1", (ActionTaken,), lambda _: None), delivery, reason, 5)
    await publish_dead_letter(bus, letter)
    return letter


async def letters_in(bus: Bus) -> list[str]:
    return [letter.id async for letter in open_dead_letters(bus)]


async def test_letters_are_listed_with_and_without_a_run(
    life: Life,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
    hostile: str,
) -> None:
    """`dlq list --json` has the same rows during a run and after it."""
    async with in_progress() as bus:
        letter = await fail(bus, publish, life.act(0), "joy", hostile)
        await dlq.list_(common=replace(common, json=True))
    during = json.loads(printed())
    await dlq.list_(common=replace(common, json=True))

    assert json.loads(printed()) == during
    [row] = during["letters"]
    assert (row["id"], row["consumer"], row["tries"], row["seq"]) == (letter.id, "joy", 5, 1)
    assert row["subject"] == "conch.v1.echo.action.taken"
    assert row["agent"] == "echo"
    assert "[/nope]" in row["reason"]


async def test_an_empty_list_of_letters_says_so(home: Home, common: CommonOptions, printed: Printed) -> None:
    """A sentence for a person, an empty list as JSON."""
    home.make()
    await dlq.list_(common=common)
    said = printed()
    await dlq.list_(common=replace(common, json=True))

    assert said == "there is no dead letter: every event was handled, retried or dropped\n"
    assert json.loads(printed())["letters"] == []


async def test_a_letter_is_shown_with_its_event_and_harmless(
    life: Life,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
    hostile: str,
) -> None:
    """`dlq show` prints a letter named by the beginning of its id, and what it holds."""
    async with in_progress() as bus:
        letter = await fail(bus, publish, life.act(0, hostile), "joy", hostile)
        await dlq.list_(common=common)
        await dlq.show(letter.id[:8], common=common)

    text = printed()
    assert "\x1b" not in text
    assert '"actionid"' in text


async def test_a_dropped_letter_is_listed_no_more(
    life: Life,
    home: Home,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
) -> None:
    """`dlq drop` works without a run too, and drops what was named only."""
    async with in_progress() as bus:
        first, second = [await fail(bus, publish, life.act(cycle), "joy") for cycle in (0, 1)]

    await dlq.drop(first.id, common=common)

    assert printed() == f"{first.id[:8]} dropped\n"
    async with open_bus(home, Settings()) as bus:
        assert await letters_in(bus) == [second.id]
    with pytest.raises(ConchError, match="0 dead letters begin with"):
        await dlq.drop(first.id, common=common)


async def test_letters_have_to_be_named(common: CommonOptions) -> None:
    """Without an id, or with an empty one, nothing is retried or dropped."""
    with pytest.raises(UsageError, match="which letters"):
        await dlq.drop(common=common)
    with pytest.raises(UsageError, match="which letters"):
        await dlq.retry("", common=common)


async def test_a_retry_during_a_run_is_asked_of_the_consumer(
    life: Life, common: CommonOptions, in_progress: InProgress, publish: Publish
) -> None:
    """During a run its own copy of the consumer retries; what it says decides whether the letter is settled."""
    asked, reply = [], {"error": "ValueError: no joy"}

    async def answer(_: str, data: bytes) -> bytes:
        asked.append(json.loads(data))
        return json.dumps(reply).encode()

    async with in_progress() as bus:
        letter = await fail(bus, publish, life.act(0), "joy")
        with pytest.raises(BusUnreachableError, match="joy takes no retry"):
            await dlq.retry(letter.id, common=common)
        place = await take_position(bus, ConsumerSpec("joy", "1", (ActionTaken,), lambda _: None))
        async with bus.serve(control_of("joy", place.holder), answer):
            with pytest.raises(ConchError, match="failed again: ValueError: no joy"):
                await dlq.retry(letter.id, common=common)
            still = await letters_in(bus)
            reply = {"ok": True}  # type: ignore[dict-item]
            await dlq.retry(letter.id, common=common)
        assert (still, await letters_in(bus)) == ([letter.id], [])
    assert asked == [{"seq": 1}, {"seq": 1}]


async def test_a_retry_without_a_run_starts_the_consumer_for_the_moment(
    life: Life,
    home: Home,
    common: CommonOptions,
    joy: Path,
    in_progress: InProgress,
    publish: Publish,
) -> None:
    """Without a run the consumer is found, handles the letter, publishes what follows; a failure leaves the letter."""
    async with in_progress() as bus:
        letter = await fail(bus, publish, life.act(0), "joy")
    broken = joy.with_name("broken")
    broken.touch()
    with pytest.raises(ConchError, match="failed again: ValueError: no joy"):
        await dlq.retry(letter.id, rules=[joy], common=common)
    broken.unlink()

    await dlq.retry(letter.id, rules=[joy], common=common)

    async with open_bus(home, Settings()) as bus:
        assert await letters_in(bus) == []
        assert (await bus.last(subject_filter(MessageReceived, "echo"))) is not None


async def test_a_fold_is_built_again_from_the_state_before_its_letter(
    life: Life,
    home: Home,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
) -> None:
    """Without a run a fold's letter is retried too: what it would have published is published."""

    def failing(_: Any, __: Any) -> Any:
        raise ValueError("not today")

    needs = replace(bind(needs_consumer, ServiceContext(Settings(), home.path)), handle=failing, tries=1)
    async with in_progress() as bus:
        await publish(bus, life.act(0))
        stop = asyncio.Event()
        async with shared_subscription(bus) as shared_events:
            running = asyncio.create_task(ConsumerRuntime(shared_events, needs).run(stop))
            while (letter := await bus.last(subject_filter(ConsumerFailed, "echo"))) is None:
                await asyncio.wait({running}, timeout=0.01)
            stop.set()
            await running

    await dlq.retry(str(decode(letter.data).id), common=common)

    async with open_bus(home, Settings()) as bus:
        assert await letters_in(bus) == []
        assert (await bus.last(subject_filter(NeedsChanged, "echo"))) is not None


async def test_a_letter_of_the_store_is_joined_after_all(
    life: Life,
    home: Home,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
) -> None:
    """Without a run, beside what it has joined; its place stays where it is."""
    async with in_progress() as bus:
        letter = await fail(bus, publish, life.act(0), "store")
        epoch = (await bus.state()).epoch
    with SqliteStore(home.path / "store.db") as store:
        store.set_epoch(epoch)
        store.set_position(9)

    await dlq.retry(letter.id, common=common)

    with SqliteStore(home.path / "store.db") as store:
        assert list(store.chain.acts("echo")) == [(life.act(0).action_id, 0)]
        assert store.position() == 9
    async with open_bus(home, Settings()) as bus:
        assert await letters_in(bus) == []


async def test_who_handles_no_single_facts_says_so(
    life: Life, common: CommonOptions, in_progress: InProgress, publish: Publish
) -> None:
    """The letter stays."""
    async with in_progress() as bus:
        letter = await fail(bus, publish, life.act(0), "metrics")

    with pytest.raises(ConchError, match="the metrics takes no letter again"):
        await dlq.retry(letter.id, common=common)


async def test_all_letters_are_tried_once_more_during_a_run(
    life: Life,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One that fails again, or whose consumer is not there, stays and keeps no other from being handled."""
    asked: list[int] = []

    async def answer(_: str, data: bytes) -> bytes:
        asked.append(json.loads(data)["seq"])
        return json.dumps({"error": "no joy"} if asked[-1] == 3 else {"ok": True}).encode()

    async with in_progress() as bus:
        letters = [
            await fail(bus, publish, life.act(cycle), name) for cycle, name in enumerate(("joy", "joy", "grief"))
        ]
        async with bus.serve("conch.ctl._consumer.joy.*.retry", answer):
            with pytest.raises(ConchError, match="2 dead letters are left"):
                await dlq.retry(every=True, common=common)
        left = await letters_in(bus)

    assert asked == [1, 3]
    assert left == [letters[1].id, letters[2].id]
    told = capsys.readouterr()
    assert told.out.count(" retried\n") == 1
    assert f"{letters[0].id[:8]} retried" in told.out
    assert f"{letters[1].id[:8]} failed again: no joy" in told.err
    assert "the consumer grief takes no retry" in told.err


async def test_all_letters_of_one_consumer_are_tried_once_more_without_a_run(
    life: Life,
    home: Home,
    common: CommonOptions,
    joy: Path,
    in_progress: InProgress,
    publish: Publish,
) -> None:
    """Each by its consumer, which is started once; others' letters are not touched."""
    async with in_progress() as bus:
        for cycle, name in enumerate(("joy", "reward", "joy", "grief")):
            await fail(bus, publish, life.act(cycle), name)

    await dlq.retry(every=True, consumer="joy", rules=[joy], common=common)
    with pytest.raises(ConchError, match="1 dead letters are left"):
        await dlq.retry(every=True, common=common)
    await dlq.drop(every=True, consumer="grief", common=common)

    async with open_bus(home, Settings()) as bus:
        assert await letters_in(bus) == []
        said = [decode(delivery.data) async for delivery in bus.read([subject_filter(MessageReceived)])]
        scored = [decode(delivery.data) async for delivery in bus.read([subject_filter(RewardAssigned)])]
    assert [event.cycle for event in said] == [0, 2]
    assert [event.cycle for event in scored] == [1]


async def test_a_letter_of_a_consumer_of_batches_is_retried(
    life: Life,
    home: Home,
    common: CommonOptions,
    tmp_path: Path,
    in_progress: InProgress,
    publish: Publish,
) -> None:
    """As a batch of one."""
    file = tmp_path / "many.py"
    file.write_text(BATCHES)
    async with in_progress() as bus:
        letter = await fail(bus, publish, life.act(0), "many")

    await dlq.retry(letter.id, rules=[file], common=common)

    async with open_bus(home, Settings()) as bus:
        assert await letters_in(bus) == []
        assert (await bus.last(subject_filter(MessageReceived, "echo"))) is not None


@pytest.mark.parametrize(
    ("ids", "options", "why"),
    [
        ((), {}, "which letters"),
        (("",), {}, "which letters"),
        (("a",), {"every": True}, "takes no ids"),
        (("a",), {"consumer": "joy"}, "narrows --all"),
        ((), {"consumer": "joy"}, "narrows --all"),
    ],
)
@pytest.mark.parametrize("command", [dlq.retry, dlq.drop])
async def test_which_letters_must_be_clear(
    common: CommonOptions, command: Any, ids: tuple[str, ...], options: dict[str, Any], why: str
) -> None:
    """By their ids or all of them, never by half of that."""
    with pytest.raises(UsageError, match=why):
        await command(*ids, **options, common=common)


async def test_a_letter_of_a_consumer_that_is_gone_stays(
    life: Life, common: CommonOptions, in_progress: InProgress, publish: Publish
) -> None:
    """Where nobody can handle a letter the command says what to name."""
    async with in_progress() as bus:
        letter = await fail(bus, publish, life.act(0), "joy")

    with pytest.raises(ConchError, match="name its file with --rules"):
        await dlq.retry(letter.id, common=common)


def test_nothing_but_the_document_is_on_stdout(
    home: Home, conch: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """The embedded server that is started for a while leaves no line behind."""
    result = conch("dlq", "list", "--json")

    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {"schema": "conch.v1.letters", "letters": []}
