"""Retry with back-off: how long each loop of the product waits between two tries, and how often a process is restarted.

stamina and tenacity were evaluated. They own the loop, and the loops here decide what a library cannot: a Retry-After
of the endpoint goes first, a wait ends when the run is stopped, the message to the person depends on the try, an event
that fails on all tries becomes a dead letter. What is left is a table of waits. A successful call through them costs 27
µs and 31 µs, and each event is written through such loops; importing them takes 5 ms and 8 ms.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Self

_jitter = random.Random()  # noqa: S311 - spreads tries, hides nothing


@dataclass(frozen=True)
class Backoff:
    """Waits between tries, in seconds."""

    seconds: tuple[float, ...]
    """The waits after the first failure, the second and so on; the last one after each further failure."""
    spread: tuple[float, float] = (1.0, 1.0)
    """Each wait is drawn evenly between these multiples of it, so that many that fail together do not retry
    together."""

    @classmethod
    def doubling(cls, first: float, most: float, spread: tuple[float, float] = (1.0, 1.0)) -> Self:
        """`first` seconds, doubled with each failure up to `most`."""
        seconds = [first]
        while seconds[-1] < most:
            seconds.append(min(2 * seconds[-1], most))
        return cls(tuple(seconds), spread)

    def after(self, failures: int, draw: random.Random = _jitter) -> float:
        """Seconds to wait before the next try, after this many failures in a row (1 or more)."""
        least, most = self.spread
        return self.seconds[min(failures, len(self.seconds)) - 1] * draw.uniform(least, most)


BUS_REQUEST = Backoff(tuple(0.05 * tries for tries in range(1, 21)))
"""A request to the bus's server, or a write of the bucket, with a lost reply or a temporary refusal. Soon again at
first: in a cluster the server that was to answer may have died."""
BUS_PUBLISH = Backoff((0.05, 0.1, 0.2, 0.5, 1.0))
"""A server that has no room for an event, or is not ready."""
MODEL_REQUEST = Backoff.doubling(0.5, 30.0, (0.5, 1.0))
"""A request to the mind's endpoint, while the fault may pass by itself."""
MIND_REST = Backoff.doubling(15.0, 300.0)
"""A mind that failed while a fallback answers: it is asked again after this wait."""
MODEL = Backoff.doubling(2.0, 60.0, (0.75, 1.0))
"""A mind that gave no reply, asked once more by its agent, which reports that it waits."""
JUDGE_REQUEST = Backoff.doubling(0.5, 8.0, (0.5, 1.0))
"""A question to a judge's endpoint."""
EVENT = Backoff((0.1, 0.5, 2.0, 8.0))
"""An event that a consumer failed on."""
REBUILD = Backoff((0.1,))
"""An event that is folded again after a dead letter, while a person waits."""
CONSUMER = Backoff((0.1, 0.5, 2.0, 5.0))
"""A consumer that broke, started again in its process."""
PROCESS = Backoff((0.1, 0.2, 0.5, 1.0, 2.0))
"""A process that died, started again."""
BROKER = Backoff((0.1, 0.3, 1.0, 3.0, 10.0), (0.5, 1.5))
"""A connection to the MQTT broker, made again for ever."""
STORE_SERVER = Backoff.doubling(0.1, 5.0, (0.75, 1.0))
"""A PostgreSQL server that went away while a store was open there, connected again for ever."""
MCP_SERVER = Backoff.doubling(0.5, 60.0, (0.75, 1.0))
"""An MCP server that died or does not answer, started or connected again for ever."""

CIRCUIT = Backoff.doubling(5.0, 60.0)
"""A consumer that fails at every event, tried with one event again."""

MOST_RESTARTS = 5
"""Deaths of a process, or breaks of a consumer, within RESTART_SECONDS after which it is left down."""
RESTART_SECONDS = 60.0


class Restarts:
    """Whether a process that died is started again, and when: not after MOST_RESTARTS deaths within RESTART_SECONDS."""

    def __init__(self, backoff: Backoff, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds, monotonic."""
        self._backoff, self._clock = backoff, clock
        self._deaths: deque[float] = deque()

    def died(self) -> bool:
        """Count a death now; returns whether to start it again."""
        now = self._clock()
        self._deaths.append(now)
        while self._deaths[0] < now - RESTART_SECONDS:
            self._deaths.popleft()
        return len(self._deaths) < MOST_RESTARTS

    def wait(self) -> float:
        """Seconds from the last death to the next start."""
        return self._backoff.after(len(self._deaths))


class CircuitBreaker:
    """Whether events are handled: not after `most` failed tries in a row with the same error, over two events or more.

    Closed, each event gets all its tries. Open, none gets any, but one event gets one try whenever the wait of
    `backoff` is over; where that succeeds, the breaker is closed again. One event alone never opens it.
    """

    def __init__(self, most: int, backoff: Backoff = CIRCUIT, clock: Callable[[], float] = time.monotonic) -> None:
        """`most`: failed tries in a row that open it; 0: it never opens. `clock`: seconds, monotonic."""
        self._most, self._backoff, self._clock = most, backoff, clock
        self._error: Hashable = None
        self._failures = self._openings = 0
        self._gave_up = False
        self._again = 0.0

    @property
    def is_open(self) -> bool:
        """Whether events are to be given up at once."""
        return self._openings > 0

    def tries(self, most: int) -> int:
        """Tries that the next event gets: `most`, none, or one. The one is given to a single event at a time."""
        if not self._openings:
            return most
        if self._clock() < self._again:
            return 0
        self._wait()
        return 1

    def failed(self, error: Hashable) -> bool:
        """Count a failed try; `error` is equal for the same error. Returns whether it has opened by that."""
        if self._openings:
            return False
        if error != self._error:
            self._error, self._failures, self._gave_up = error, 0, False
        self._failures += 1
        if not self._most or self._failures < self._most or not self._gave_up:
            return False
        self._wait()
        return True

    def gave_up(self) -> None:
        """Count an event that failed on all its tries: a further failure is another event's."""
        self._gave_up = True

    def succeeded(self) -> bool:
        """Count an event that was handled. Returns whether it has closed by that."""
        was_open = self.is_open
        self._error, self._failures, self._openings, self._gave_up = None, 0, 0, False
        return was_open

    def _wait(self) -> None:
        self._openings += 1
        self._again = self._clock() + self._backoff.after(self._openings)
