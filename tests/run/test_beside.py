"""Commands that open the store while something else opens and closes it all the time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.run.conftest import House

OPENS = """
import contextlib, sqlite3, sys
while True:
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(sys.argv[1], uri=True)) as store:
        store.execute("SELECT count(*) FROM sqlite_master").fetchone()
"""


@pytest.fixture
def opened(house: House) -> Iterator[House]:
    """A home whose store another program opens and closes all the time."""
    house.live_through(3)
    program = subprocess.Popen([sys.executable, "-c", OPENS, f"file:{house.home / 'store.db'}?mode=ro"])
    yield house
    program.kill()
    program.wait()


def test_a_score_is_joined_while_the_store_is_opened_elsewhere(opened: House) -> None:
    """The command that writes and reads in one process ends with exit 0: it ended by SIGBUS, without a word."""
    options = ("--name", "taste", "--value", "0.5", "--why", "a reason", "--json")
    said = [json.loads(opened.conch("reward", "score", str(cycle), *options)) for cycle in (0, 1, 2)]

    assert [one["score"]["value"] for one in said] == [0.5] * 3
    assert json.loads(opened.conch("cycle", "list", "--json"))["cycles"]
