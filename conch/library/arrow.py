"""Rows of a home as an Arrow stream, by the PyCapsule interface: what polars, DuckDB, pyarrow and pandas read.

Arrow's documentation describes the interface: https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Union

from conch.errors import UsageError
from conch.experience.queries import BUILTIN_SCORERS, PHASES

if TYPE_CHECKING:
    import pyarrow as pa

BATCH: Final = 1000
"""Rows of a batch: some 5 MB of cycles, as an act holds 64 KiB of output at most and mostly less than 4."""

Column = Union[str, "ListOf", "MapOf", Mapping[str, "Column"]]
"""A type by Arrow's name for it; of the elements of a list; of the values of a map by name; of a struct's fields."""
Columns = Mapping[str, Column]


class ListOf(tuple[Column]):
    """The type of a column of lists: one element, the type of theirs."""


class MapOf(tuple[Column]):
    """The type of a column of maps from names: one element, the type of the values."""


TIME: Final = "timestamp[us, UTC]"
_KEY: Final[Columns] = {"agent": "string", "cycle": "int64", "action_id": "string", "time": TIME}
SCORE: Final[Columns] = {
    **dict.fromkeys(("component", "scorer", "version", "status"), "string"),
    **dict.fromkeys(("value", "weight"), "double"),
    **dict.fromkeys(("role", "explanation"), "string"),
}
GOAL: Final[Columns] = {
    **dict.fromkeys(("goal", "statement", "outcome"), "string"),
    **dict.fromkeys(("measure", "best"), "double"),
}
CYCLES: Final[Columns] = {
    **_KEY,
    **dict.fromkeys(("thought", "reflection", "raw", "kind", "tool", "skill"), "string"),
    "valid": "bool",
    **dict.fromkeys(("outcome", "error", "output"), "string"),
    **dict.fromkeys(("total", "coverage"), "double"),
    "complete": "bool",
    "revision": "int64",
    **dict.fromkeys(("model", "policy", "episode"), "string"),
    **dict.fromkeys(("input_tokens", "output_tokens"), "int64"),
    **dict.fromkeys((f"ms_{phase}" for phase in PHASES), "double"),
    **dict.fromkeys((f"score_{name}" for name in BUILTIN_SCORERS), "double"),
    "scores": ListOf((SCORE,)),
    "goals": ListOf((GOAL,)),
    "needs_before": MapOf(("double",)),
    "needs_after": MapOf(("double",)),
}
"""All but the flat columns of added scores and of needs, which are numbers."""
SCORES: Final[Columns] = {**_KEY, **SCORE}
GOALS: Final[Columns] = {**_KEY, **GOAL, "detail": "string"}
MARKS: Final[Columns] = {
    "agent": "string",
    "sequence": "int64",
    **dict.fromkeys(("action_id", "domain", "origin", "evidence", "stimulus", "response", "reasoning"), "string"),
    **dict.fromkeys(("event", "previous", "hash"), "string"),
}
"""All but the columns of the principles, which are numbers."""
FIGURES: Final[Columns] = {
    **dict.fromkeys(("agent", "name"), "string"),
    **dict.fromkeys(("value", "low", "high"), "double"),
    **dict.fromkeys(("unit", "cohort"), "string"),
    "cycles": "int64",
}
_STATE: Final[Columns] = {
    "cycle": "int64",
    "step": "int64",
    "needs": MapOf(("double",)),
    "goals": ListOf(({"goal": "string", "statement": "string", "best": "double"},)),
    "observation": ListOf(({"role": "string", "content": "string"},)),
}
TRANSITIONS: Final[Columns] = {
    **_KEY,
    "state": _STATE,
    "action": dict.fromkeys(("kind", "tool", "args", "text", "raw"), "string"),
    **dict.fromkeys(("reward", "coverage"), "double"),
    "complete": "bool",
    "next_state": _STATE,
    "episode": "string",
    "terminal": "bool",
}


class ArrowMissingError(UsageError, AttributeError):
    """There is no pyarrow. An AttributeError, so that a data frame takes the rows as dicts instead."""


class Rows(Iterator[dict[str, object]]):
    """Rows, one after the other as dicts; and, with the extra `data`, an Arrow stream of all of them.

    Each Arrow stream reads the home anew, in batches of 1,000 rows: a home of any size takes little memory. It has the
    documented columns; of the columns of numbers whose names depend on the rows (`score_NAME`, `need_NAME_before`)
    those that occur in the first batch. An error of the store ends the stream with its sentence.
    """

    def __init__(
        self,
        rows: Callable[[], Iterator[dict[str, object]]],
        columns: Columns,
        nested: Callable[[], Iterator[dict[str, object]]] | None = None,
    ) -> None:
        """`rows`: begins to read them. `nested`: the same for Arrow, where that has more columns than a flat row."""
        self._rows = rows()
        self._columns = columns
        self._begin = nested or rows

    def __next__(self) -> dict[str, object]:
        return next(self._rows)

    @property
    def __arrow_c_stream__(self) -> Callable[..., object]:
        """Arrow's method: called with a requested schema or None, it returns a capsule of a stream.

        Raises ArrowMissingError without pyarrow.
        """
        if find_spec("pyarrow") is None:
            raise ArrowMissingError(
                "Arrow columns need pyarrow: pip install 'conch-agent[data]', or take the rows as dicts"
            )
        return self._stream

    def _stream(self, requested_schema: object = None) -> object:
        import pyarrow as pa  # only here: it takes 0.1 s and is an extra

        rows = self._begin()
        first = list(islice(rows, BATCH))
        schema = pa.schema(list(_fields(self._columns, first)))
        batches = (pa.RecordBatch.from_pylist(batch, schema=schema) for batch in _batches(chain(first, rows)))
        return pa.RecordBatchReader.from_batches(schema, batches).__arrow_c_stream__(requested_schema)


def _batches(rows: Iterator[dict[str, object]]) -> Iterator[list[dict[str, object]]]:
    while batch := list(islice(rows, BATCH)):
        yield batch


def _fields(columns: Columns, rows: Sequence[dict[str, object]]) -> Iterator[pa.Field[Any]]:
    """The columns, and as numbers those that only these rows have."""
    import pyarrow as pa

    for name, column in columns.items():
        yield pa.field(name, _type(column))
    for name in dict.fromkeys(name for row in rows for name in row if name not in columns):
        yield pa.field(name, pa.float64())


def _type(column: Column) -> pa.DataType:
    import pyarrow as pa

    match column:
        case ListOf((element,)):
            return pa.list_(_type(element))
        case MapOf((value,)):
            return pa.map_(pa.string(), _type(value))
        case str():
            return pa.timestamp("us", "UTC") if column == TIME else pa.type_for_alias(column)
        case _:
            return pa.struct([pa.field(name, _type(field)) for name, field in column.items()])
