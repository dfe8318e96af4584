"""`conch reward score`: a person's own word on a past act."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Bus
from conch.cli.common import CommonOptions, open_bus
from conch.cli.reward.score import score
from conch.config import NeedsSettings, Settings
from conch.errors import StoreError, UsageError
from conch.experience import SqliteReader, SqliteStore
from conch.home import Home
from conch.needs import fold, initial_state, table_of
from conch.retry import Backoff
from conch_schemas import Part, RewardAssigned, consequence_id, decode, subject_filter

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Life


Printed = Callable[[], str]
KIND = Part(component="kind", weight=0.5, range=(-1, 1), scorer="human")


@pytest.fixture
def past(home: Home, life: Life) -> None:
    """Three cycles of a stream that is gone; from cycle 2 on half of the total is `kind`, a person's to score."""
    early = life.weights()
    parts = tuple(part.model_copy(update={"weight": part.weight / 2}) for part in early.parts)
    identity = consequence_id(life.uid, "run", "w2", type(early))
    late = early.model_copy(update={"id": identity, "version": "w2", "parts": (*parts, KIND)})
    facts = [early, *life.cycle(0), *life.cycle(1), late, *life.cycle(2)]
    with SqliteStore(home.path / "store.db") as store:
        store.set_epoch("of before")
        store.apply(list(enumerate(facts, 1)), upto=len(facts), now=facts[-1].time + timedelta(hours=1))


async def said(bus: Bus) -> list[RewardAssigned]:
    """What stands on the stream."""
    found = [decode(delivery.data) async for delivery in bus.read([subject_filter(RewardAssigned)])]
    return [event for event in found if isinstance(event, RewardAssigned)]


@pytest.mark.usefixtures("past")
async def test_a_persons_score_counts_where_the_weights_of_then_expect_it(
    home: Home, common: CommonOptions, printed: Printed
) -> None:
    """The total of cycle 2 moves and its revision rises; scored again, the newer score counts, the earlier is kept."""
    await score(2, name="kind", value=1.0, why="it helped", common=replace(common, json=True))
    first = json.loads(printed())
    await score(2, name="kind", value=-1.0, why="it did not", common=replace(common, json=True))
    second = json.loads(printed())
    await score(1, name="kind", value=1.0, why="early", common=common)
    early = printed()

    assert first["total"] == pytest.approx(first["total_before"] + 0.5)
    assert second["total"] == pytest.approx(first["total"] - 1.0)
    assert second["revision"] == first["revision"] + 1
    assert (first["score"]["version"], second["score"]["version"]) == ("1", "2")
    assert "the weight set of then pays nothing for kind" in early
    with SqliteReader(home.path / "store.db") as store:
        act = store.cycles.act("echo", 2)
        assert act is not None
        assert sorted(store.backfill.versions(str(act.action_id), "human", "kind")) == ["1", "2"]
        [shown] = [one for one in store.cycles.get("echo", 2).scores if one.component == "kind"]  # type: ignore[union-attr]
        assert (shown.value, shown.weight, shown.explanation) == (-1.0, 0.5, "it did not")
        assert [mark.domain for mark in store.chain.marks_of("echo", str(act.action_id))].count("score") >= 2
    async with open_bus(home, Settings()) as bus:
        events = await said(bus)
    assert {event.action_id for event in events} >= {act.action_id}
    table = table_of(NeedsSettings())
    satisfied = [fold(initial_state(NeedsSettings()), event, table)[1] is not None for event in events]
    assert satisfied == [True, False, True]


@pytest.mark.usefixtures("past")
async def test_during_a_run_the_score_goes_onto_its_stream(
    common: CommonOptions, in_progress: InProgress, printed: Printed
) -> None:
    """Twice is two versions, also before the store has read the first one; that it waits for the store is said."""
    async with in_progress() as bus:
        await score(0, name="kind", value=0.5, why="fine", common=common)
        await score(0, name="kind", value=0.25, why="less so", common=common)
        events = await said(bus)

    assert "joined when the store runs" in printed()
    assert [(event.version, event.scores[0].value) for event in events] == [("1", 0.5), ("2", 0.25)]
    assert len({event.id for event in events}) == 2


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"name": "format"}, "that is a built-in part"),
        ({"name": "Kind"}, "a name is small letters"),
        ({"value": 1.5}, r"--value 1.5 is outside -1..1"),
        ({"value": float("nan")}, "--value nan is outside"),
        ({"value": float("inf"), "range_": (0.0, float("inf"))}, "two finite numbers"),
        ({"range_": (1.0, 0.0)}, "two finite numbers, the lesser first"),
        ({"why": " "}, "--why needs a text"),
        ({"why": "x" * 1001}, "1,001 characters, at most 1,000"),
    ],
)
@pytest.mark.usefixtures("past")
async def test_what_cannot_be_a_score_is_refused(told: dict[str, Any], says: str, common: CommonOptions) -> None:
    """Before anything is started or published, in one sentence."""
    given: dict[str, Any] = {"name": "kind", "value": 0.5, "why": "so"} | told
    with pytest.raises(UsageError, match=says):
        await score(2, **given, common=common)


@pytest.mark.usefixtures("past")
async def test_a_range_that_the_settings_name_is_the_only_one(
    home: Home, common: CommonOptions, printed: Printed
) -> None:
    """Another would turn the person's earlier score into an error: it is refused; their own is as good as none."""
    home.config_file.write_text("rewards: {parts: {kind: {range: [-1, 1], scorer: human}}}\n")

    with pytest.raises(UsageError, match=r"--range -5 5: rewards.parts.kind.range is -1 1"):
        await score(2, name="kind", value=3, why="so", range_=(-5, 5), common=common)
    await score(2, name="kind", value=1, why="so", range_=(-1, 1), common=common)

    assert "kind +1, your score number 1" in printed()


@pytest.mark.usefixtures("past")
async def test_a_cycle_that_is_not_there(common: CommonOptions) -> None:
    """The last one is named."""
    with pytest.raises(UsageError, match="there is no recorded cycle 7 of echo: the last one is 2"):
        await score(7, name="kind", value=0.5, why="so", common=common)


@pytest.mark.usefixtures("home")
async def test_without_experiences_that_is_said(common: CommonOptions) -> None:
    """There is nothing to score before the first run."""
    with pytest.raises(StoreError, match="there are no experiences at"):
        await score(0, name="kind", value=0.5, why="so", common=common)


@pytest.mark.usefixtures("past")
async def test_a_store_that_breaks_each_time_is_given_up(
    common: CommonOptions, printed: Printed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The score is on the stream, that it is not joined is said: nobody waits for ever."""

    def odd(*_: object, **__: object) -> None:
        raise RuntimeError("an odd act")

    monkeypatch.setattr(importlib.import_module("conch.consumer.host"), "CONSUMER", Backoff((0.0,)))
    monkeypatch.setattr(SqliteStore, "set_epoch", odd)
    await score(2, name="kind", value=1.0, why="it helped", common=common)

    told = capsys.readouterr()
    assert "it is joined when the store runs" in told.out
    assert "store broke: RuntimeError: an odd act" in told.err
