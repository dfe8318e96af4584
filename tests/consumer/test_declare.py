"""What may be declared, and what is refused."""

from __future__ import annotations

import inspect
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from conch import consumer, rule, service
from conch.config import Settings
from conch.consumer import ServiceContext, ServiceDeclaration, bind
from conch.consumer.declare import spec_of
from conch.errors import ContractError
from conch.rules import DeclaredRule, RuleInfo, rule_of
from conch.run_info import RunInfo
from conch_schemas import ActionTaken, AlarmRaised

CONTEXT = ServiceContext(Settings(), Path("/nowhere"))


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


def test_numbers_and_truth_values_of_a_rule_are_written_as_such() -> None:
    """A weight of False and a held_out of 1 are taken, and the run's own record of the rule can be read again."""
    info = rule_of(rule(weight=False, held_out=1, timeout=2, range=(0, 1))(brevity)).info  # type: ignore[arg-type]

    assert RunInfo.decode(RunInfo(pid=1, rules=(asdict(info),)).encode()).rules[0]["held_out"] is True
    assert [type(value) for value in (info.weight, info.held_out, info.timeout)] == [float, bool, float]


def test_a_rule_stays_a_plain_function() -> None:
    """It can be called, and says what it is: its name is the function's."""
    declared = rule(weight=0.25, range=(-1, 1), version="2", timeout=3)(brevity)

    assert declared is brevity
    info = RuleInfo("brevity", "2", 0.25, -1.0, 1.0, timeout=3, doc="1.0 for a short reply.")
    assert spec_of(brevity) == rule_of(brevity) == DeclaredRule(info, brevity)


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

    stateful, windowed = rule_of(fold), rule_of(trajectory)
    assert stateful is not None
    assert windowed is not None
    assert (stateful.state, windowed.state) == (State, None)
    assert stateful.info == RuleInfo("fold", held_out=True, stateful=True)
    assert windowed.info == RuleInfo("trajectory", window=50)


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

    plain, stateful = bind(joy, CONTEXT), bind(fold, CONTEXT)

    assert (plain.name, plain.version, plain.kinds, plain.state) == ("joy", "1", (ActionTaken,), None)
    assert (stateful.name, stateful.version, stateful.state) == ("other", "3", State)
    assert stateful.initial is not None
    assert stateful.initial() == State()


def test_what_setup_returns_is_the_last_argument() -> None:
    """Of the function and of `initial`, and the argument of `version`, `at_once` and `close`; it is asked once."""
    asked: list[ServiceContext] = []

    def made(context: ServiceContext) -> int:
        asked.append(context)
        return 7

    @consumer(ActionTaken, state=State, setup=made, initial=lambda own: State(count=own), version=lambda own: f"v{own}")
    def fold(state: State, action: ActionTaken, own: int) -> tuple[State, int]:
        return state, own

    @consumer(ActionTaken, setup=made, at_once=lambda own: 2 * own)
    async def asks(action: ActionTaken, own: int) -> None: ...

    folding, asking = bind(fold, CONTEXT), bind(asks, CONTEXT)

    assert asked == [CONTEXT, CONTEXT]
    assert folding.initial is not None
    assert folding.initial() == State(count=7)
    assert (folding.version, folding.handle(State(), None)) == ("v7", (State(), 7))
    assert (asking.at_once, inspect.iscoroutinefunction(asking.handle)) == (14, True)


def test_a_consumer_begins_where_it_says() -> None:
    """At the start of the stream, or behind the weight set in force."""
    context = replace(CONTEXT, begin=40)

    @consumer(ActionTaken)
    def all_of_it(action: ActionTaken) -> None: ...

    @consumer(ActionTaken, begin="weights")
    def from_now(action: ActionTaken) -> None: ...

    assert (bind(all_of_it, context).begin, bind(from_now, context).begin) == (0, 40)


def test_only_a_consumer_is_bound() -> None:
    """A rule runs in a process of its own, and a plain function is nothing yet."""
    for other in (brevity, rule()(function_named("plain"))):
        with pytest.raises(ContractError, match="is not declared with @consumer"):
            bind(other, CONTEXT)


def function_named(name: str) -> Any:
    """A function of an act with this name."""

    def function(action: ActionTaken) -> float:
        return 1.0

    function.__name__ = name
    return function


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
    [
        ({"batch": 0}, "1 to 1000"),
        ({"batch": 1001}, "1 to"),
        ({"batch": 2, "state": State}, "one by one"),
        ({"at_once": 2, "state": State}, "a fold or a batch is not handled at_once"),
        ({"at_once": 2, "batch": 2}, "a fold or a batch is not handled at_once"),
        ({"at_once": 2}, "with at_once write async def"),
        ({"linger": -1}, "linger is 0 to 60 seconds, not -1"),
        ({"linger": float("nan")}, "linger is 0 to 60"),
        ({"begin": "end"}, 'begin is "start" or "weights"'),
        ({"initial": State}, "without a state it has no initial one"),
        ({"close": print}, "there is no setup whose value close"),
        ({"version": lambda own: "1"}, "there is no setup"),
        ({"setup": print}, r"with setup write def brevity\(event, value\)"),
        ({"setup": print, "state": State}, r"with setup write def brevity\(state, event, value\)"),
        ({"emits": ["reward.assigned"]}, "emits are events"),
        ({"enabled_by": "edge.brigde"}, "conch.yaml has no key edge.brigde"),
        ({"instances": "rewards.jugdes"}, "conch.yaml has no key rewards.jugdes"),
        ({"version": ""}, "version '' is no text"),
    ],
)
def test_a_consumer_that_cannot_be_is_refused(words: Any, says: str) -> None:
    """Where it is declared, in one sentence that names the consumer and what is wrong."""
    with pytest.raises(ContractError, match=f"consumer joy: .*{says}"):
        consumer(ActionTaken, name="joy", **words)(brevity)


@pytest.mark.parametrize("number", [0, -1])
def test_a_number_at_once_of_the_settings_is_looked_at_when_it_is_known(number: int) -> None:
    """None at once would be for ever."""

    @consumer(ActionTaken, setup=lambda _: number, at_once=lambda own: own)
    async def asks(action: ActionTaken, own: int) -> None: ...

    with pytest.raises(ContractError, match="at_once is at least 1 event"):
        bind(asks, CONTEXT)


def test_a_version_of_the_settings_is_looked_at_when_it_is_known() -> None:
    """It becomes part of a score's key, as one that is written down does."""

    @consumer(ActionTaken, setup=lambda _: "two words", version=lambda own: own)
    def worded(action: ActionTaken, own: str) -> None: ...

    with pytest.raises(ContractError, match="consumer worded: version 'two words' is no text of letters"):
        bind(worded, CONTEXT)


def test_a_service_says_what_it_is() -> None:
    """Its name is the class's or its own; without parentheses, or with a name that is no token, it is refused."""

    @service(name="bell", emits=[AlarmRaised], serves=["conch.ctl._bell.ring"], enabled_by="edge.bridge")
    def made(context: ServiceContext) -> Any:
        return context

    declared = spec_of(made)
    assert isinstance(declared, ServiceDeclaration)
    assert (declared.name, declared.emits, declared.serves) == ("bell", (AlarmRaised,), ("conch.ctl._bell.ring",))
    assert (declared.keeps_position, declared.enabled_by) == (True, ("edge.bridge",))
    with pytest.raises(ContractError, match=r"service made: write @service\(\)"):
        service(made)
    with pytest.raises(ContractError, match="service 'A b': a name is"):
        service(name="A b")(made)


def test_what_was_not_declared_is_nothing() -> None:
    """Also when it only looks like it."""
    assert spec_of(print) is None
    odd = type("Odd", (), {"__conch__": "rule"})()
    assert (spec_of(odd), rule_of(odd)) == (None, None)


def test_a_consumer_is_no_rule() -> None:
    """One attribute holds either; the reader of rules passes over a consumer."""

    @consumer(ActionTaken)
    def joy(action: ActionTaken) -> None: ...

    assert spec_of(joy) is not None
    assert rule_of(joy) is None
