"""A home as Arrow columns, and its transitions."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import duckdb
import polars
import pyarrow
import pytest

import conch
from conch.errors import UsageError
from conch.experience import SqliteStore
from conch.testing import make_action_taken
from tests.library.conftest import NOON, FillHome, MakeHome

REPLIES = ("DO_NOTHING: rest", "REFLECT: tides", 'TOOL: filesystem(operation="list", path=".")')


async def test_cycles_are_an_arrow_table_with_the_values_of_the_rows(make_home: MakeHome) -> None:
    """Every flat column as it stands in the dicts; scores and needs as nested columns with their types."""
    home = await make_home(REPLIES)

    with conch.open(home) as opened:
        rows = list(opened.cycles())
        table = pyarrow.table(opened.cycles())

    assert table.num_rows == len(rows) == 3
    assert set(rows[0]) <= set(table.column_names)
    for row, flat in zip(table.to_pylist(maps_as_pydicts="strict"), rows, strict=True):
        assert {name: row[name] for name in flat} == flat
        assert row["needs_before"] == {
            name.removeprefix("need_").removesuffix("_before"): value
            for name, value in flat.items()
            if name.startswith("need_") and name.endswith("_before")
        }
        assert {score["component"]: score["value"] for score in row["scores"]}["format"] == flat["score_format"]
    assert str(table.schema.field("needs_after").type) == "map<string, double>"
    assert table.schema.field("scores").type.value_type.field("value").type == pyarrow.float64()
    assert str(table.schema.field("time").type) == "timestamp[us, tz=UTC]"


async def test_polars_and_duckdb_read_the_stream(make_home: MakeHome) -> None:
    """By the interface alone; the same object may be read several times."""
    home = await make_home(REPLIES)

    with conch.open(home) as opened:
        cycles = opened.cycles()
        frame = polars.DataFrame(cycles)
        counted = duckdb.sql("SELECT kind, count(*), min(scores[1].component) FROM cycles GROUP BY kind ORDER BY kind")
        found = counted.fetchall()

    assert frame["kind"].to_list() == ["DO_NOTHING", "REFLECT", "TOOL"]
    assert frame["total"].dtype == polars.Float64
    assert found == [(kind, 1, "format") for kind in ("DO_NOTHING", "REFLECT", "TOOL")]


@pytest.mark.parametrize("name", ["cycles", "transitions", "scores", "goals", "marks"])
async def test_every_kind_of_rows_is_a_stream(name: str, make_home: MakeHome) -> None:
    """With as many rows as there are dicts, also where there is none."""
    home = await make_home(REPLIES)

    with conch.open(home) as opened:
        rows = list(getattr(opened, name)())
        table = pyarrow.table(getattr(opened, name)())

    assert table.num_rows == len(rows)
    assert {column for row in rows for column in row} <= set(table.column_names)


def test_a_stream_comes_in_batches_and_is_read_as_it_is_asked(
    fill_home: FillHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch reads three pages of the store, whatever is behind them; all batches are all rows in order."""
    home = fill_home(echo=950)
    monkeypatch.setattr("conch.library.arrow.BATCH", 300)

    with conch.open(home) as opened:
        walked: list[Any] = []
        walk = opened._store.cycles.walk
        monkeypatch.setattr(
            opened._store.cycles, "walk", lambda *given: (walked.append(one) or one for one in walk(*given))
        )
        reader = pyarrow.RecordBatchReader.from_stream(opened.cycles())
        first = reader.read_next_batch()
        read = len(walked)
        sizes = [first.num_rows, *(batch.num_rows for batch in reader)]

    assert read == 300
    assert sizes == [300, 300, 300, 50]


def test_an_error_of_the_store_ends_the_stream_with_its_sentence(fill_home: FillHome) -> None:
    """A home that was closed meanwhile: no shorter table."""
    opened = conch.open(fill_home(echo=1100))
    reader = pyarrow.RecordBatchReader.from_stream(opened.cycles())
    reader.read_next_batch()
    opened.close()

    with pytest.raises(Exception, match="experience store"):
        reader.read_all()


def test_without_pyarrow_the_rows_are_dicts_and_the_stream_says_what_to_install(
    fill_home: FillHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data frame that looks for the stream finds none, and takes the dicts."""
    monkeypatch.setattr("conch.library.arrow.find_spec", lambda _: None)

    with conch.open(fill_home(echo=3)) as opened:
        with pytest.raises(UsageError, match=r"pip install 'conch-agent\[data\]', or take the rows as dicts"):
            opened.cycles().__arrow_c_stream__()
        assert not hasattr(opened.cycles(), "__arrow_c_stream__")
        assert polars.DataFrame(opened.cycles())["cycle"].to_list() == [0, 1, 2]


async def test_a_transition_leads_from_state_to_state(make_home: MakeHome) -> None:
    """The next state of a cycle is the state of the one behind it; the last has none yet."""
    home = await make_home(REPLIES)

    with conch.open(home) as opened:
        rows: list[Any] = list(opened.transitions())
        cycles = list(opened.cycles())
        table = pyarrow.table(opened.transitions())

    assert [row["next_state"] for row in rows] == [*(row["state"] for row in rows[1:]), None]
    assert [row["state"]["cycle"] for row in rows] == [0, 1, 2]
    assert [row["reward"] for row in rows] == [cycle["total"] for cycle in cycles]
    assert rows[2]["action"]["tool"] == "filesystem"
    assert json.loads(rows[2]["action"]["args"]) == {"operation": "list", "path": "."}
    assert rows[0]["state"]["needs"]["curiosity"] == cycles[0]["need_curiosity_before"]
    assert {message["role"] for message in rows[0]["next_state"]["observation"]} >= {"user"}
    assert table.schema.field("next_state").type.field("needs").type == pyarrow.map_(pyarrow.string(), "double")
    assert table.to_pylist(maps_as_pydicts="strict") == rows


def test_the_next_state_is_linked_when_the_next_act_is_stored(fill_home: FillHome) -> None:
    """Before its scores have come; of each agent its own, in the order of the stream."""
    home = fill_home(echo=2, bee=1)
    with SqliteStore(home / "store.db") as store:
        at = NOON + timedelta(days=3)
        acts = [
            make_action_taken(2, "echo", needs={"curiosity": 0.75}, time=at),
            make_action_taken(2, "echo", step=1, needs={"curiosity": 0.25}, time=at),
            make_action_taken(9, "bee", time=at),
        ]
        store.apply(list(enumerate(acts, store.position() + 1)), upto=store.position() + 3, now=at)

    with conch.open(home) as opened:
        found: list[Any] = [(row["agent"], row["cycle"], row["next_state"]) for row in opened.transitions()]

    linked = [(agent, cycle, state["cycle"], state["step"]) for agent, cycle, state in found]
    assert linked == [("echo", 0, 1, 0), ("echo", 1, 2, 0), ("bee", 0, 9, 0)]
    assert found[1][2]["needs"] == {"curiosity": 0.75}
