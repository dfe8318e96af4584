"""Rows as Arrow tables and Parquet files. Imports pyarrow, the extra `data`, when it is used."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from conch.data.row import PAIRED, Format
from conch.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_REPEATED: Final = [
    *("agent", "policy", "weights", "kind", "tool", "model", "engine", "constraint", "skill", "status", "origin"),
    *("role", "split", "state_key", "episode"),
    *("scores.list.element.component", "scores.list.element.status", "needs.list.element.need"),
]
"""Columns of cycles of which the values repeat. A dictionary of one whose values are all different, such as ids and
thoughts, takes time and room."""


def refuse_without_arrow() -> None:
    """Raises UsageError where the extra `data` is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "Parquet files are written by pyarrow, which is not installed: pip install 'conch-agent[data]', "
            "or write JSON Lines with --jsonl"
        ) from error


@cache
def schema_of(format: Format) -> pa.Schema:
    """The columns of a format: its reader's, then the lineage."""
    import pyarrow as pa

    said = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    texts, numbers, flags = pa.list_(pa.string()), pa.list_(pa.float64()), pa.list_(pa.bool_())
    score = [("component", pa.string()), ("value", pa.float64()), ("weight", pa.float64()), ("status", pa.string())]
    need = [("need", pa.string()), ("satisfaction", pa.float64())]
    columns: dict[Format, list[tuple[str, Any]]] = {
        "sft": [("prompt", said), ("completion", said)],
        "kto": [("prompt", said), ("completion", said), ("label", pa.bool_())],
        "grpo": [("prompt", said)],
        "dpo": [("prompt", said), ("chosen", said), ("rejected", said)],
        "reward": [("prompt", said), ("chosen", said), ("rejected", said)],
        "cycles": [
            *((name, pa.int64()) for name in ("cycle", "step", "seq")),
            ("acted", pa.float64()),
            ("kind", pa.string()),
            ("tool", pa.string()),
            ("valid", pa.bool_()),
            ("reply", pa.string()),
            ("thought", pa.string()),
            ("coverage", pa.float64()),
            ("complete", pa.bool_()),
            ("scores", pa.list_(pa.struct(score))),
            ("needs", pa.list_(pa.struct(need))),
            *((name, pa.string()) for name in ("model", "engine", "constraint")),
            ("propensity", pa.float64()),
            ("episode", pa.string()),
            ("terminal", pa.bool_()),
        ],
        "minari": [
            ("id", pa.int64()),
            ("observations", texts),
            ("actions", texts),
            ("rewards", numbers),
            ("terminations", flags),
            ("truncations", flags),
        ],
    }
    lineage: list[tuple[str, Any]] = [
        ("row_id", pa.string()),
        ("action_ids", texts),
        *((name, pa.string()) for name in ("state_key", "prompt_hash", "agent", "policy", "weights")),
        ("revision", pa.int64()),
        ("reward", pa.float64()),
        ("margin", pa.float64()),
        *((name, pa.string()) for name in ("skill", "status", "origin")),
        ("weight", pa.float64()),
        ("role", pa.string()),
        *([("tier", pa.string())] if format in PAIRED else []),
        ("split", pa.string()),
    ]
    return pa.schema([*columns[format], *lineage])


class ParquetFile:
    """A Parquet file of one format, written in groups of rows. It has its footer once the context is left."""

    def __init__(self, path: Path, format: Format) -> None:
        """In the place of the file at `path`. It is Arrow's own: one of Python's would ask for the interpreter's lock
        at each column."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._schema, self._file = schema_of(format), pa.OSFile(str(path), "wb")
        self._writer = pq.ParquetWriter(
            self._file,
            self._schema,
            compression="zstd",
            use_dictionary=_REPEATED if format == "cycles" else True,
            write_statistics=["row_id"],
        )

    def read(self, lines: bytes) -> pa.Table:
        """The table of these rows, each a line of JSON in UTF-8. Any thread may do it."""
        import pyarrow as pa
        import pyarrow.json as pj

        found = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            parse_options=pj.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="error"),
        )
        assert isinstance(found, pa.Table)
        return found.select(self._schema.names)

    def write(self, table: Future[pa.Table]) -> None:
        """A group of rows, once it is read. Any thread may do it, one at a time. Raises OSError, and what reading
        raised."""
        self._writer.write_table(table.result())

    def write_empty(self) -> None:
        """The columns without a row: a file of none needs them. Raises OSError."""
        self._writer.write_table(self._schema.empty_table())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Write the footer. After an error it is tried too, as the writer does so when it is collected: too late, when
        its file is closed."""
        with suppress(OSError) if error is not None else nullcontext():
            self._writer.close()
            self._file.close()
