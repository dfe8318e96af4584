"""What commands say of cycles that retention removed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli import cycle, mark, status
from conch.cli.common import CommonOptions
from conch.cli.reward.backfill import backfill
from conch.cli.reward.listing import list_ as reward_list
from conch.cli.reward.score import score
from conch.errors import CheckError, ConchError, UsageError
from conch.experience import RetentionLimits, SqliteStore
from conch.experience.queries import prune
from conch.experience.queries.chain import SqlChain
from conch.home import Home
from tests.cli.test_verify import change

if TYPE_CHECKING:
    from tests.cli.conftest import Kept, Life


Printed = Callable[[], str]
REMOVED = datetime(2027, 1, 2, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def bounded(filled: Life, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the three cycles only the last is kept."""
    monkeypatch.setattr(prune, "KEPT_CYCLES", 1)
    with SqliteStore(home.path / "store.db") as store:
        assert store.prune(RetentionLimits(bytes=1), REMOVED).acts == 2


def test_a_removed_cycle_is_named_as_removed(common: CommonOptions) -> None:
    """By which setting and when; not as one that never was."""
    with pytest.raises(ConchError, match=r"^cycle 1 of echo was removed by store\.keep\.gib on 2027-01-02: ") as told:
        cycle.show(1, common=common)
    with pytest.raises(ConchError, match="there is no recorded cycle 9 of echo"):
        cycle.show(9, common=common)

    assert told.value.exit_code == 2


async def test_a_removed_cycle_takes_no_score(common: CommonOptions) -> None:
    """The person is told why before anything is published."""
    with pytest.raises(UsageError, match=r"cycle 1 of echo was removed by store\.keep\.gib .*: the last one is 2"):
        await score(1, name="kind", value=1.0, why="it helped", common=common)


async def test_the_chain_is_told_to_go_on_behind_removed_marks(common: CommonOptions, printed: Printed) -> None:
    """The kept marks hold; which were removed and the hash that the rest follows are said."""
    await mark.verify(common=common)
    said = printed().splitlines()
    await mark.verify(common=replace(common, json=True))
    found = json.loads(printed())

    assert said[0] == "2 marks of 1 acts of echo hold"
    assert said[1].startswith("marks 0 to 3 were removed by store.keep on 2027-01-02, the chain goes on from hash ")
    assert (found["ok"], found["removed"]["first"], found["removed"]["last"]) == (True, 0, 3)
    with pytest.raises(ConchError, match=r"mark 3 of echo was removed by store\.keep"):
        mark.show(3, common=common)


@pytest.mark.parametrize("sql", ["DELETE FROM removals", "DELETE FROM marks WHERE sequence = 4"])
async def test_marks_that_were_removed_by_hand_are_still_found(home: Home, common: CommonOptions, sql: str) -> None:
    """Without a record, and beyond it."""
    change(home, sql)

    with pytest.raises(CheckError):
        await mark.verify(common=common)


async def test_what_is_removed_while_marks_are_read_is_not_missed(
    home: Home, life: Life, kept: Kept, common: CommonOptions, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run prunes between the reading of the acts and the reading of the marks: nothing is wrong."""
    kept(*life.cycle(3), *life.cycle(4))
    read = SqlChain.marks

    def pruned_first(reader: Any, agent: str, start: int = 0) -> Any:
        with SqliteStore(home.path / "store.db") as store:
            assert store.prune(RetentionLimits(bytes=1), REMOVED + timedelta(days=1)).acts
        return read(reader, agent, start)

    monkeypatch.setattr(SqlChain, "marks", pruned_first)

    await mark.verify(common=common)

    assert printed().startswith("2 marks of 1 acts of echo hold\nmarks 0 to 7 were removed by store.keep from ")


async def test_a_backfill_says_how_many_acts_are_gone(common: CommonOptions, printed: Printed) -> None:
    """They are not scored, and not counted as scored."""
    await backfill("reward", version="2", common=replace(common, json=True))

    found = json.loads(printed())
    assert (found["acts"], found["published"], found["removed"]) == (1, 1, 2)


async def test_lifetime_figures_hold_removed_cycles(common: CommonOptions, printed: Printed) -> None:
    """`reward list` and `status` count all three cycles; the status says how many are removed."""
    await reward_list(common=replace(common, json=True))
    rows = {row["component"]: row for row in json.loads(printed())["rewards"]}
    await status.status(common=replace(common, json=True))
    found = json.loads(printed())
    await status.status(common=common)
    screen = printed()

    assert (rows["format"]["count"], rows["format"]["mean"]) == (3, 0.5)
    assert (found["figures"]["count"], found["store"]["removed"], found["last_cycle"]) == (3, 2, 2)
    assert "2 acts were removed by store.keep (sums over them stay)" in screen


async def test_a_filling_disk_is_on_the_status(
    common: CommonOptions, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to do stands beside it."""
    monkeypatch.setattr("conch.disk.FULL_SHARE", 0.0)

    await status.status(common=common)

    assert "disk         the disk of " in (screen := printed())
    assert "store.keep.gib, bus.keep.days, bus.keep.gib), or make room" in screen
