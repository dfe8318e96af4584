"""Declaring consumers, and the runtime that reads, handles, publishes and stores the position for each of them."""

from conch.consumer.declare import bind, consumer
from conch.consumer.follow import follow
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
