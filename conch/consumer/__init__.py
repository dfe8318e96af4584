"""The plug-in seam and the runtime of consumers."""

import importlib
from typing import TYPE_CHECKING

from conch.consumer.declare import consumer
from conch.consumer.follow import follow
from conch.consumer.spec import ConsumerSpec, RuleSpec

if TYPE_CHECKING:
    from conch.consumer.runtime.loop import ConsumerRuntime
    from conch.consumer.service import Service, ServiceContext

__all__ = [
    "ConsumerRuntime",
    "ConsumerSpec",
    "RuleSpec",
    "Service",
    "ServiceContext",
    "consumer",
    "follow",
]

_WHERE = {
    "ConsumerRuntime": "conch.consumer.runtime.loop",
    "Service": "conch.consumer.service",
    "ServiceContext": "conch.consumer.service",
}
"""Imported when first used: a plug-in that declares a rule needs neither bus nor settings."""

if not TYPE_CHECKING:  # a type checker would take any name for there

    def __getattr__(name: str) -> object:
        if (module := _WHERE.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(module), name)
        return value
