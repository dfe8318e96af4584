"""The decorators `@consumer` and `@service`, by which plug-ins and built-in consumers declare themselves. The decorated
function stays a plain function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from conch.config import Settings
from conch.consumer.services import Service, ServiceContext, ServiceDeclaration
from conch.consumer.spec import ConsumerDeclaration, ConsumerSpec
from conch.errors import ContractError
from conch.rules import NAME, DeclaredRule, declaration_of, declare_as, refuse_version
from conch_schemas import Event

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=Callable[[ServiceContext], Service])

LARGEST_BATCH = 1000
LONGEST_LINGER = 60.0


def consumer(
    *kinds: type[Event],
    name: str | None = None,
    version: str | Callable[[Any], str] = "1",
    state: type[BaseModel] | None = None,
    initial: Callable[..., BaseModel] | None = None,
    batch: int | None = None,
    at_once: int | Callable[[Any], int] | None = None,
    linger: float = 0.0,
    begin: Literal["start", "weights"] = "start",
    emits: Sequence[type[Event]] = (),
    setup: Callable[[ServiceContext], Any] | None = None,
    again: Callable[[Any, Any, Event], Awaitable[Any]] | None = None,
    close: Callable[[Any], Awaitable[None]] | None = None,
    enabled_by: str | Sequence[str] = (),
    instances: str | None = None,
) -> Callable[[F], F]:
    """Declare a consumer of `kinds`: `(event) -> facts`, or with `state` a fold `(state, event) -> (state, facts)`.

    `facts` is an event made with `follow`, several, or None. The built-in consumers are declared with the same
    parameters.

    * `state`: a pydantic model, one state per agent, stored by the runtime. The fold is a pure function, not async.
      An agent's first state is `initial()`, by default `state()`.
    * `batch` = 1..1000: the function is given up to so many events at once, of all agents, each agent's in order:
      `(events) -> facts`. Where it raises on every try, each event is tried by itself, and those that fail become dead
      letters. Not with `state`.
    * `at_once`: up to so many events are handled side by side, also of one agent, for an async function that waits for
      something outside. They begin in stream order; what follows from each is published when it is there. Not with
      `state` or `batch`.
    * `linger`: seconds, 0..60, that it waits after an event has come, so that other consumers go first; what comes
      meanwhile is handled with it.
    * `begin`: where it begins when it has no position yet: at the start of the stream, or ("weights") behind the
      weight set in force.
    * `emits`: the events it publishes. After a crash only these are searched for its own. Left out, the return
      annotation says what it may publish on a bus with users (`conch bus permissions`).
    * `setup`: `(ServiceContext) -> value`, called once each time the consumer starts, in its event loop. The value is
      the function's last argument, and the argument of `initial`, of `close`, and of `version` and `at_once` where
      those are functions. A ConfigError or ContractError leaves the consumer down; after any other error it is
      started again. The context of a plug-in has the settings without secrets and addresses.
    * `again`: `async (state, event, published) -> state`, for a fold whose next version may answer otherwise: the state
      after an event that was handled before a crash, where the stream has another fact under the id than the fold
      returned now. What was published counts.
    * `close`: `async (value)`, called once when the consumer ends, after the last event in hand; also when it fails or
      is cancelled.
    * `enabled_by`: keys of conch.yaml (`"edge.bridge"`); the consumer runs where one of them is set, that is neither
      null, false nor empty.
    * `instances`: a key of conch.yaml that holds a mapping (`"rewards.judges"`); one consumer `NAME-KEY` runs for each
      of its keys, with the key as `context.instance`.

    Raises ContractError without kinds, with an unusable name or version, and for parameters that cannot be or do not
    go together.
    """
    if len(kinds) == 1 and inspect.isfunction(kinds[0]):
        raise ContractError(f"consumer {kinds[0].__name__}: name the events it reads, e.g. @consumer(ActionTaken)")

    def declare(function: F) -> F:
        own = name or function.__name__
        if not NAME.match(own):
            raise ContractError(f"consumer {own!r}: a name is small letters, digits, '_' and '-', at most 48")
        if not kinds or not _are_events(kinds):
            raise ContractError(f"consumer {own}: name the events it reads, e.g. @consumer(ActionTaken)")
        if not callable(version):
            refuse_version(f"consumer {own}", version)
        _refuse_pace(own, function, state, batch, at_once)
        if not 0 <= linger <= LONGEST_LINGER:
            raise ContractError(f"consumer {own}: linger is 0 to {LONGEST_LINGER:g} seconds, not {linger}")
        if begin not in ("start", "weights"):
            raise ContractError(f'consumer {own}: begin is "start" or "weights", not {begin!r}')
        if initial is not None and state is None:
            raise ContractError(f"consumer {own}: without a state it has no initial one")
        if setup is None and (close is not None or callable(version) or callable(at_once)):
            raise ContractError(f"consumer {own}: there is no setup whose value close, version or at_once could take")
        if setup is not None:
            _refuse_arity(own, function, 3 if state is not None else 2)
        declared = ConsumerDeclaration(
            own,
            kinds,
            function,
            version=_checked(own, version) if callable(version) else version,
            state=state,
            initial=initial,
            batch=batch,
            at_once=at_once,
            linger=linger,
            begin=begin,
            emits=_emitted(f"consumer {own}", emits),
            setup=setup,
            again=again,
            close=close,
            enabled_by=_keys(f"consumer {own}", enabled_by),
            instances=_keys(f"consumer {own}", instances)[0] if instances is not None else None,
        )
        declare_as(function, declared)
        return function

    return declare


def service(
    *bare: Any,
    name: str | None = None,
    emits: Sequence[type[Event]] = (),
    serves: Sequence[str] = (),
    keeps_position: bool = True,
    enabled_by: str | Sequence[str] = (),
) -> Callable[[S], S]:
    """Declare a service: a class or function `(ServiceContext) -> Service`, for what is no function of one event.

    A service reads the shared subscription itself, stores its own position if it has one, and schedules its own work in
    `run`; see `conch.consumer.Service`. It is made anew each time it starts. The built-in ones are the store, the
    metrics, the dashboard, OpenTelemetry and MQTT.

    * `emits`: the events it publishes; `serves`: the subjects on which it answers requests. On a bus with users it may
      publish and answer nothing else.
    * `keeps_position`: whether one copy of it may run at a time. False: it begins at the end of the stream, and several
      may run.
    * `enabled_by`: as of `@consumer`.

    Raises ContractError for an unusable name, unusable keys, and for `@service` without its parentheses.

    ```python
    import asyncio
    import conch
    from conch.consumer import ConsumerCounts, ServiceContext
    from conch_schemas import AlarmRaised


    @conch.service(name="bell", keeps_position=False)
    class Bell:
        name, handled, busy = "bell", None, False  # no other consumer waits for it

        def __init__(self, context: ServiceContext) -> None:
            self.tally = ConsumerCounts()

        async def run(self, shared, stop: asyncio.Event) -> None:
            async with shared.subscribe((AlarmRaised,), after=shared.seq) as alarms:
                while not stop.is_set():
                    for arrived in await alarms.get(16):
                        print("\a", arrived.event.what)
    ```
    """
    if bare:
        raise ContractError(f"service {getattr(bare[0], '__name__', bare[0])}: write @service(), with its parentheses")

    def declare(make: S) -> S:
        own = name or make.__name__
        if not NAME.match(own):
            raise ContractError(f"service {own!r}: a name is small letters, digits, '_' and '-', at most 48")
        declared = ServiceDeclaration(
            own,
            make,
            emits=_emitted(f"service {own}", emits),
            serves=tuple(serves),
            keeps_position=keeps_position,
            enabled_by=_keys(f"service {own}", enabled_by),
        )
        declare_as(make, declared)
        return make

    return declare


def _checked(name: str, version: Callable[[Any], str]) -> Callable[[Any], str]:
    """The version that a function of `setup`'s value gives. Raises ContractError for one that cannot be."""

    def given(value: Any) -> str:
        found = version(value)
        refuse_version(f"consumer {name}", found)
        return found

    return given


def _refuse_pace(
    name: str, function: Callable[..., Any], state: type[BaseModel] | None, batch: int | None, at_once: object
) -> None:
    """Raises ContractError for ways of taking events that cannot be, or do not go together."""
    if state is not None and inspect.iscoroutinefunction(function):
        raise ContractError(f"consumer {name}: a fold is a pure function, it cannot be async")
    if batch is not None and not 1 <= batch <= LARGEST_BATCH:
        raise ContractError(f"consumer {name}: a batch has 1 to {LARGEST_BATCH} events, not {batch}")
    if batch is not None and state is not None:
        raise ContractError(f"consumer {name}: a fold takes its events one by one, it has no batch")
    if at_once is None:
        return
    if state is not None or batch is not None:
        raise ContractError(f"consumer {name}: a fold or a batch is not handled at_once with others")
    if not inspect.iscoroutinefunction(function):
        raise ContractError(f"consumer {name}: with at_once write async def; another function waits for nothing")
    if isinstance(at_once, int) and at_once < 1:
        raise ContractError(f"consumer {name}: at_once is at least 1 event, not {at_once}")


def _refuse_arity(name: str, function: Callable[..., Any], count: int) -> None:
    """Raises ContractError where the function does not take the value of `setup` as its last argument."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        arguments = ", ".join(("state", "event", "value")[-count:])
        raise ContractError(f"consumer {name}: with setup write def {function.__name__}({arguments})") from None


def _emitted(who: str, emits: Sequence[type[Event]]) -> tuple[type[Event], ...]:
    if not _are_events(tuple(emits)):
        raise ContractError(f"{who}: emits are events, e.g. emits=(RewardAssigned,)")
    return tuple(emits)


def _are_events(kinds: tuple[Any, ...]) -> bool:
    return all(isinstance(kind, type) and issubclass(kind, Event) for kind in kinds)


def _keys(who: str, keys: str | Sequence[str]) -> tuple[str, ...]:
    """Keys of conch.yaml, `otel.endpoint`. Raises ContractError for one that there is not."""
    several = (keys,) if isinstance(keys, str) else tuple(keys)
    for key in several:
        try:
            setting(Settings(), key)
        except AttributeError:
            raise ContractError(f"{who}: conch.yaml has no key {key}") from None
    return several


def setting(settings: Settings, key: str) -> Any:
    """The value of a dotted key of conch.yaml. Raises AttributeError where there is no such key."""
    return attrgetter(key)(settings)


Declared = DeclaredRule | ConsumerDeclaration | ServiceDeclaration
"""The declaration that a decorator attaches to a function."""


def spec_of(thing: object) -> Declared | None:
    """The declaration that `thing` carries, or None."""
    found = declaration_of(thing)
    return found if isinstance(found, DeclaredRule | ConsumerDeclaration | ServiceDeclaration) else None


def bind(thing: object, context: ServiceContext) -> ConsumerSpec:
    """The consumer that runs, of a function decorated with `@consumer`. Raises ContractError for any other thing."""
    declared = spec_of(thing)
    if not isinstance(declared, ConsumerDeclaration):
        raise ContractError(f"{getattr(thing, '__name__', thing)} is not declared with @consumer")
    return declared.bind(context)
