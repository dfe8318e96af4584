"""Packing: what is written comes back, and what is damaged is left to its reader."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conch.experience import packing


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    """A connection with both functions."""
    with closing(sqlite3.connect(":memory:")) as connection:
        packing.register(connection)
        yield connection


def unpacked(db: sqlite3.Connection, value: object) -> object:
    """What a reader gets for this value."""
    return db.execute("SELECT unpacked(?)", (value,)).fetchone()[0]


def packed(db: sqlite3.Connection, value: object) -> bytes:
    """What is stored for this value."""
    return bytes(db.execute("SELECT packed(?)", (value,)).fetchone()[0])


WHOLE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@WHOLE
@given(st.binary() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_every_value_comes_back_as_it_was(db: sqlite3.Connection, value: bytes | str) -> None:
    """Bytes as bytes, text as text."""
    assert unpacked(db, packed(db, value)) == value


def test_a_header_that_says_empty_is_no_empty_value(db: sqlite3.Connection) -> None:
    """One changed bit may move the field of the size onto zeros: the checksum is not looked at then."""
    whole = packed(db, b"\0")
    damaged = whole[:4] + bytes([whole[4] ^ 1]) + whole[5:]

    assert unpacked(db, damaged) == damaged


@WHOLE
@given(st.binary(min_size=1), st.data())
def test_a_damaged_value_never_comes_back_as_another(db: sqlite3.Connection, value: bytes, data: st.DataObject) -> None:
    """One changed byte: the value as it is stored, which is no JSON, or the one that was written."""
    whole = packed(db, value)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]

    assert unpacked(db, damaged) in (damaged, value)


@pytest.mark.parametrize("value", [b'{"a": 1}', "text", 7, 0.5, None])
def test_a_plain_value_is_read_as_it_is(db: sqlite3.Connection, value: object) -> None:
    """As an earlier version wrote it, or a person."""
    assert unpacked(db, value) == value


def test_a_body_that_would_fill_the_memory_is_not_unpacked(db: sqlite3.Connection) -> None:
    """A frame of a kilobyte can be made to say gigabytes."""
    bomb = packed(db, bytes(packing.LARGEST + 1))

    assert len(bomb) < 10_000
    assert unpacked(db, bomb) == bomb


def test_an_event_takes_a_fifth_of_its_room(db: sqlite3.Connection) -> None:
    """The dictionary has the words that events repeat: without it, an event this short is hardly shortened."""
    event = (
        b'{"specversion":"1.0","id":"0","source":"conch/a/b","type":"conch.v1.action.taken","subject":"c","agent":"a",'
        b'"data":{"raw":"DO_NOTHING: a","action":{"kind":"TOOL","valid":true,"tool":'
        b'"filesystem","args":{"operation":"read","path":"a"}},"outcome":{"status":"success","output":{"text":"b"}}}}'
    )

    assert len(packed(db, event)) < len(event) / 2


THREADS = """
import sys, threading
from conch.experience import MemoryStore
sys.setswitchinterval(1e-6)
store, ends = MemoryStore(), []
def read():
    for number in range(300):
        store._file.named("SELECT unpacked(packed(:a)), :b, :c FROM pragma_table_list", {"a": b"x", "b": 1, "c": 2})
        store.set_position(number)
        store.cycles.last("echo", 3)
    ends.append(True)
threads = [threading.Thread(target=read) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
store.close()
print(len(ends))
"""


def test_threads_that_share_a_store_wait_for_each_other() -> None:
    """SQLite's own mutex and the GIL, each held by a thread that waits for the other, would hold both for ever."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.stderr) == ("4\n", "")
