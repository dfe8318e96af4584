"""Declaring consumers, and the runtime that reads, handles, publishes and stores the position for each of them."""

from .declare import bind as bind
from .declare import consumer as consumer
from .declare import service as service
from .declare import spec_of as spec_of
from .follow import envelope_after as envelope_after
from .follow import follow as follow
from .host import HostedConsumer as HostedConsumer
from .host import host as host
from .parts import asked_weights as asked_weights
from .parts import expected_parts as expected_parts
from .parts import report_weights as report_weights
from .parts import set_aside_weights as set_aside_weights
from .parts import weights_in_force as weights_in_force
from .process import builtin as builtin
from .process import introduce as introduce
from .process import plugin as plugin
from .process import quiet as quiet
from .runtime.loop import ConsumerRuntime as ConsumerRuntime
from .runtime.output import ConsumerCounts as ConsumerCounts
from .services import DisplayService as DisplayService
from .services import RetryingService as RetryingService
from .services import Service as Service
from .services import ServiceContext as ServiceContext
from .services import ServiceDeclaration as ServiceDeclaration
from .spec import ConsumerDeclaration as ConsumerDeclaration
from .spec import ConsumerSpec as ConsumerSpec
