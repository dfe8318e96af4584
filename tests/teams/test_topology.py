"""Which role may send to which, by topology."""

from __future__ import annotations

import pytest

from conch.teams import ROLES, TOPOLOGIES, may_send, next_in_chain, recipients

OTHERS = ("coder", "runner", "critic")


def test_in_a_star_all_goes_through_the_planner() -> None:
    """The planner reaches each role and each reaches the planner; two others never reach each other."""
    pairs = {(one, other) for one in ROLES for other in ROLES if may_send("star", one, other)}

    assert pairs == {("planner", role) for role in OTHERS} | {(role, "planner") for role in OTHERS}


def test_in_a_chain_each_role_reaches_the_next_one() -> None:
    """planner, coder, runner, critic, and again the planner; no other way."""
    pairs = {(one, other) for one in ROLES for other in ROLES if may_send("chain", one, other)}

    assert pairs == {("planner", "coder"), ("coder", "runner"), ("runner", "critic"), ("critic", "planner")}


def test_in_a_flat_team_each_role_reaches_two_others_at_once() -> None:
    """Any role reaches any other one, at most two by one message."""
    assert all(may_send("flat", one, other) for one in ROLES for other in ROLES if one != other)
    assert recipients("flat", "critic", ("runner", "planner"), ROLES) == ("planner", "runner")
    with pytest.raises(ValueError, match="at most 2 recipients, this one has 3"):
        recipients("flat", "critic", ("planner", "coder", "runner"), ROLES)


def test_only_the_planner_of_a_star_broadcasts() -> None:
    """A broadcast reaches every other role; a chain and a flat team of four have none."""
    assert recipients("star", "planner", ("all",), ROLES) == OTHERS
    for topology, sender in (("star", "coder"), ("chain", "planner"), ("flat", "planner")):
        with pytest.raises(ValueError, match=r"sends to|recipients"):
            recipients(topology, sender, ("all",), ROLES)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_role_that_is_not_there_is_named(topology: str) -> None:
    """An unknown recipient, the sender itself, an unknown sender and no recipient are each refused in one sentence."""
    cases = [
        ("planner", ("tester",), "has no role 'tester'"),
        ("planner", ("planner",), "planner cannot send a message to itself"),
        ("tester", ("planner",), "has no role 'tester'"),
        ("planner", (), "has no recipient"),
    ]
    for sender, to, why in cases:
        with pytest.raises(ValueError, match=why):
            recipients(topology, sender, to, ROLES)  # type: ignore[arg-type]


def test_the_chain_begins_with_the_planner_wherever_it_was_named() -> None:
    """The planner follows the last role, however the roles were listed."""
    roles = ("coder", "planner", "critic")

    assert [next_in_chain(role, roles) for role in ("planner", "coder", "critic")] == ["coder", "critic", "planner"]
