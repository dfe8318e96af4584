"""What may be declared, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from conch import consumer, rule
from conch.consumer import ConsumerSpec, RuleSpec
from conch.consumer.declare import spec_of
from conch.errors import ContractError
from conch_schemas import ActionTaken


class State(BaseModel):
    """A fold's state."""

    count: int = 0


class Lacking(BaseModel):
    """It cannot begin by itself."""

    begun: int


def brevity(action: ActionTaken) -> float | None:
    """1.0 for a short reply."""
    return 1.0


def test_a_rule_without_parentheses_is_refused_in_words() -> None:
    """The commonest slip is named, with what to write."""
    with pytest.raises(ContractError, match=r"rule brief: write @rule\(\)"):

        @rule
        def brief(action: ActionTaken) -> float:
            return 1.0


def test_a_rule_stays_a_plain_function() -> None:
    """It can be called, and says what it is: its name is the function's."""
    declared = rule(weight=0.25, range=(-1, 1), version="2", timeout=3)(brevity)

    assert declared is brevity
    assert spec_of(brevity) == RuleSpec("brevity", 0.25, (-1.0, 1.0), "2", 3, brevity, "1.0 for a short reply.")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"weight": 1.5}, "weight"),
        ({"weight": -0.1}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"range": (1, 0)}, "range"),
        ({"range": (0, 0)}, "range"),
        ({"range": (0, float("inf"))}, "range"),
        ({"range": (float("nan"), 1)}, "range"),
        ({"range": (0, 1, 2)}, "range"),
        ({"range": "ab"}, "range"),
        ({"range": None}, "range"),
        ({"range": (0, 2e9)}, "range .* goes beyond ±1e.09: scale its values down"),
        ({"version": 3}, "version 3 is no text of letters"),
        ({"version": ""}, "version '' is no text"),
        ({"version": "\x1b[2J"}, "version .* is no text"),
        ({"version": "1" * 65}, "version .* is no text"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"held_out": True, "weight": 0.1}, "it is held out, its weight must be 0"),
        ({"window": 1}, "a window has 2 to 50 acts, not 1"),
        ({"window": 51}, "a window has"),
        ({"window": True}, "a window has"),
        ({"window": 2.5}, "a window has"),
        ({"window": 2, "state": State}, "it has a state or a window, not both"),
        ({"state": dict}, "state <class 'dict'> is no pydantic model"),
        ({"state": State()}, "state .* is no pydantic model"),
        ({"state": Lacking}, r"Lacking\(\) cannot be made: give begun a default"),
        ({"state": State}, r"write def brevity\(state, action\)"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(words: Any, says: str) -> None:
    """Where it is declared, in one sentence that names the rule and what is wrong."""
    with pytest.raises(ContractError, match=f"rule brevity: {says}"):
        rule(**words)(brevity)


def test_a_rule_says_what_it_carries_and_that_it_is_held_out() -> None:
    """A state's model, or a window; neither, where nothing is said."""

    @rule(state=State, held_out=True)
    def fold(state: State, action: ActionTaken) -> tuple[State, float]:
        return state, 1.0

    @rule(window=50)
    def trajectory(actions: Any) -> float:
        return 1.0

    stateful, windowed = spec_of(fold), spec_of(trajectory)
    assert isinstance(stateful, RuleSpec)
    assert isinstance(windowed, RuleSpec)
    assert (stateful.state, stateful.window, stateful.held_out, stateful.weight) == (State, None, True, 0.0)
    assert (windowed.state, windowed.window, windowed.held_out) == (None, 50, False)


def test_a_rule_that_takes_other_arguments_is_refused() -> None:
    """At once, with what to write: else each act's score would be an error. Further ones may have defaults."""
    with pytest.raises(ContractError, match=r"rule nothing: write def nothing\(action\)"):

        @rule()
        def nothing() -> float:
            return 1.0

    with pytest.raises(ContractError, match=r"rule many: write def many\(actions\)"):

        @rule(window=2)
        def many(state: State, action: ActionTaken) -> float:
            return 1.0

    @rule()
    def more(action: ActionTaken, length: int = 40) -> float:
        return 1.0


@pytest.mark.parametrize("name", ["<lambda>", "Brevity", "a b", "_x", "ü", "x" * 49, "a.b", ""])
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    """It becomes part of subjects and labels."""
    with pytest.raises(ContractError, match="a name is"):
        rule()(type("F", (), {"__name__": name, "__doc__": ""})())
    if name:
        with pytest.raises(ContractError, match="a name is"):
            consumer(ActionTaken, name=name)(lambda action: None)


def test_a_consumer_is_named_after_its_function() -> None:
    """Unless it names itself."""

    @consumer(ActionTaken)
    def joy(action: ActionTaken) -> None: ...

    @consumer(ActionTaken, name="other", version="3", state=State)
    def fold(state: State, action: ActionTaken) -> tuple[State, None]: ...

    plain, stateful = spec_of(joy), spec_of(fold)
    assert isinstance(plain, ConsumerSpec)
    assert isinstance(stateful, ConsumerSpec)
    assert (plain.name, plain.version, plain.kinds, plain.state) == ("joy", "1", (ActionTaken,), None)
    assert (stateful.name, stateful.version, stateful.state) == ("other", "3", State)
    assert stateful.initial is not None
    assert stateful.initial() == State()


@pytest.mark.parametrize("kinds", [(), ("action.taken",), (int,), (object(),)])
def test_a_consumer_of_no_events_is_refused(kinds: Any) -> None:
    """It would never be called."""
    with pytest.raises(ContractError, match="name the events"):
        consumer(*kinds)(brevity)


def test_a_consumer_without_parentheses_is_refused() -> None:
    """It would silently be nothing."""
    with pytest.raises(ContractError, match="name the events"):
        consumer(brevity)  # type: ignore[arg-type]


def test_an_async_fold_is_refused() -> None:
    """A fold is pure; one that waits could not be folded again."""
    with pytest.raises(ContractError, match="pure"):

        @consumer(ActionTaken, state=State)
        async def fold(state: State, action: ActionTaken) -> tuple[State, None]:
            return state, None


@pytest.mark.parametrize(
    ("words", "says"),
    [({"batch": 0}, "1 to 1000"), ({"batch": 1001}, "1 to"), ({"batch": 2, "state": State}, "one by one")],
)
def test_a_batch_that_cannot_be_is_refused(words: Any, says: str) -> None:
    """Of no events, of too many, or for a fold."""
    with pytest.raises(ContractError, match=says):
        consumer(ActionTaken, name="joy", **words)(brevity)


def test_what_was_not_declared_is_nothing() -> None:
    """Also when it only looks like it."""
    assert spec_of(print) is None
    assert spec_of(type("Odd", (), {"__conch__": "rule"})()) is None
