"""The circuit breaker of a consumer: one that fails at every event does not hold up the run with its retries."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from conch.log import get_logger
from conch.retry import CircuitBreaker
from conch.text import safe_text

if TYPE_CHECKING:
    from conch.processes import ConsumerReport

log = get_logger(__name__)

SHOWN = 200
"""Characters of an error that a report shows."""


class ConsumerBreaker:
    """Counts a consumer's failures, and reports when its events go to the dead letters at once and when no longer."""

    def __init__(
        self, consumer: str, circuit: CircuitBreaker, report: Callable[[ConsumerReport], None] = lambda _: None
    ) -> None:
        self._consumer, self._circuit, self._report = consumer, circuit, report
        self.why = ""
        """The last error, while it is open: the reason in a dead letter."""

    @property
    def is_open(self) -> bool:
        """Whether events are given up without a try, but one now and then."""
        return self._circuit.is_open

    def tries(self, most: int) -> int:
        """Tries that the next event gets; `most` while the breaker is closed."""
        return self._circuit.tries(most)

    def failed(self, error: BaseException) -> None:
        """Count a failed try. Errors are the same where their type and the line that raised them are."""
        if not self._circuit.failed(_place(error)):
            return
        said = safe_text(f"{type(error).__name__}: {error}", one_line=True)[:SHOWN]
        self.why = f"not handled, as the events before it failed: {said}"
        log.error("consumer.breaker_opened", consumer=self._consumer, error=said)
        self._tell(f"{said}; its events go to the dead letters (conch dlq list), one is tried now and then")

    def gave_up(self) -> None:
        """Count an event that failed on all its tries."""
        self._circuit.gave_up()

    def succeeded(self) -> None:
        """Count an event that was handled."""
        if self._circuit.succeeded():
            log.info("consumer.breaker_closed", consumer=self._consumer)
            self._tell("")

    def _tell(self, why: str) -> None:
        from conch.processes import ConsumerFailing

        self._report(ConsumerFailing(consumer=self._consumer, why=why))


def _place(error: BaseException) -> Hashable:
    last = traceback.extract_tb(error.__traceback__, limit=-1)
    return (type(error), *((frame.filename, frame.lineno) for frame in last))
