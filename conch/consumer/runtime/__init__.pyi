"""The runtime of one consumer: read, handle, publish, store the position; in that order."""

from .dead_letters import answer_retry as answer_retry
from .dead_letters import dead_letter as dead_letter
from .dead_letters import dead_letter_named as dead_letter_named
from .dead_letters import open_dead_letters as open_dead_letters
from .dead_letters import publish_dead_letter as publish_dead_letter
from .dead_letters import settle as settle
from .loop import ConsumerRuntime as ConsumerRuntime
from .loop import control_of as control_of
from .output import ConsumerCounts as ConsumerCounts
from .state import reset as reset
