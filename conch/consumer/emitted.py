"""The event types that a consumer publishes, read from its declaration or its return annotation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

from conch.consumer.spec import ConsumerDeclaration, ConsumerSpec
from conch_schemas import Event


def emitted(spec: ConsumerSpec | ConsumerDeclaration) -> tuple[type[Event], ...]:
    """The event types as declared, else as in the function's return annotation. Empty: not known."""
    function = spec.handle if isinstance(spec, ConsumerSpec) else spec.function
    try:
        hints = {} if spec.emits else get_type_hints(function)
    except Exception:  # the annotations of a plug-in may name anything
        return ()
    return spec.emits or tuple(dict.fromkeys(_events(hints.get("return"))))


def _events(hint: Any) -> Iterator[type[Event]]:
    if isinstance(hint, type) and issubclass(hint, Event) and hint is not Event:
        yield hint
    for part in get_args(hint):
        yield from _events(part)
