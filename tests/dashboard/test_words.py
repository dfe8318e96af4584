"""Numbers in words: the server and the page's scripts write each of them alike."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conch.views import line
from conch_services.dashboard.assets import FOLDER
from conch_services.dashboard.drawings.numerals import fixed, signed

TABLE = [
    (0.5625, 3, "+0.563"),
    (-0.5625, 3, "−0.563"),
    (0.0005, 3, "+0.001"),
    (1.0005, 3, "+1.001"),
    (0.0004999, 3, "+0.000"),
    (-0.0004, 3, "+0.000"),
    (-0.0, 3, "+0.000"),
    (0.125, 2, "+0.13"),
    (2.5, 0, "+3"),
    (0.99951, 3, "+1.000"),
    (1e-7, 3, "+0.000"),
    (1e21, 1, "+1000000000000000000000.0"),
]
"""(value, digits, how it is written)."""


def written_by_scripts(values: list[tuple[float, int]]) -> list[list[str]]:
    """[signed, fixed] of each value with so many digits, as words.js writes them."""
    script = (
        f"const {{ signed, fixed }} = await import({json.dumps((FOLDER / 'words.js').as_uri())});"
        f"const values = {json.dumps(values)};"
        "console.log(JSON.stringify(values.map(([value, digits]) => [signed(value, digits), fixed(value, digits)])));"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], capture_output=True, text=True, check=True, cwd=Path("/")
    )
    return list(json.loads(done.stdout))


@pytest.fixture(scope="module", autouse=True)
def node(needs: Callable[[str, str], None]) -> None:
    """It runs the page's scripts."""
    needs("node", "install nodejs")


def test_a_half_is_rounded_away_from_nothing_by_both() -> None:
    """Each value of the table stands so in the terminal, but for its hyphen, in what the server draws and in what the
    scripts draw."""
    expected = [said for *_, said in TABLE]

    assert [line.signed(value, digits) for value, digits, _ in TABLE] == [said.replace("−", "-") for said in expected]

    assert [signed(value, digits) for value, digits, _ in TABLE] == expected
    assert [said for said, _ in written_by_scripts([(value, digits) for value, digits, _ in TABLE])] == expected


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.floats(-1e9, 1e9) | st.integers(-40000, 40000).map(lambda n: n / 2**14), st.integers(0, 4)),
        min_size=50,
        max_size=200,
    )
)
def test_the_server_and_the_scripts_write_every_number_alike(values: list[tuple[float, int]]) -> None:
    """Whatever the value and its digits."""
    assert written_by_scripts(values) == [[signed(*one), fixed(*one)] for one in values]
