"""Tools for tests of rules and consumers: a memory bus, a fake clock, event factories, `score` and `consume`.

Needs no pytest and works within it. `score` and `consume` go through the code that a run goes through, so what passes
here is what happens there.
"""

from conch.testing.clock import FakeClock
from conch.testing.consumers import Consumed, consume
from conch.testing.events import make_action_taken, make_experience_recorded, make_reward_assigned
from conch.testing.memory import memory_bus
from conch.testing.rules import score

__all__ = [
    "Consumed",
    "FakeClock",
    "consume",
    "make_action_taken",
    "make_experience_recorded",
    "make_reward_assigned",
    "memory_bus",
    "score",
]
