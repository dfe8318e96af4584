"""Consumers of the event stream: how one is declared (`@consumer`, `@service`), loaded as a plug-in, and run."""

import importlib
from typing import TYPE_CHECKING

from conch.consumer.declare import bind, consumer
from conch.consumer.follow import follow

if TYPE_CHECKING:
    from conch.consumer.runtime.loop import ConsumerRuntime
    from conch.consumer.runtime.output import ConsumerCounts
    from conch.consumer.service import Service, ServiceContext, ServiceDeclaration
    from conch.consumer.spec import ConsumerDeclaration, ConsumerSpec

__all__ = [
    "ConsumerCounts",
    "ConsumerDeclaration",
    "ConsumerRuntime",
    "ConsumerSpec",
    "Service",
    "ServiceContext",
    "ServiceDeclaration",
    "bind",
    "consumer",
    "follow",
]

_WHERE = {
    "ConsumerCounts": "conch.consumer.runtime.output",
    "ConsumerDeclaration": "conch.consumer.spec",
    "ConsumerRuntime": "conch.consumer.runtime.loop",
    "ConsumerSpec": "conch.consumer.spec",
    "Service": "conch.consumer.service",
    "ServiceContext": "conch.consumer.service",
    "ServiceDeclaration": "conch.consumer.service",
}
"""Imported when first used: a plug-in that declares a rule needs neither bus nor settings."""

if not TYPE_CHECKING:  # a type checker would take any name for there

    def __getattr__(name: str) -> object:
        if (module := _WHERE.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(module), name)
        return value
