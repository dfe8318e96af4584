"""The plug-in seam and the runtime of consumers."""

from conch.consumer.declare import consumer
from conch.consumer.follow import follow
from conch.consumer.runtime.loop import ConsumerRuntime
from conch.consumer.service import Service, ServiceContext
from conch.consumer.spec import ConsumerSpec, RuleSpec

__all__ = [
    "ConsumerRuntime",
    "ConsumerSpec",
    "RuleSpec",
    "Service",
    "ServiceContext",
    "consumer",
    "follow",
]
