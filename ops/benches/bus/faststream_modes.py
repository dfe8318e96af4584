"""FastStream's ways to consume, as its documentation names them."""

from __future__ import annotations

from typing import Any

import nats.errors
from faststream.nats import PullSub
from nats.aio.msg import Msg
from nats.js import JetStreamContext

MODES: dict[str, dict[str, Any]] = {
    "push": {},
    "push64": {"max_workers": 64},
    "pull": {"pull_sub": PullSub(batch_size=256, timeout=1.0)},
    "pull64": {"pull_sub": PullSub(batch_size=256, timeout=1.0), "max_workers": 64},
    "batch": {"pull_sub": PullSub(batch_size=256, timeout=0.1, batch=True)},
}
"""Its default, its ways of one message at a time, its batches."""


def keep_batches_alive() -> None:
    """Measure FastStream's batches at their best: without stalls.

    When a batch does not fill in time, nats-py at times raises a bare TimeoutError where FastStream 0.7 expects
    nats.errors.TimeoutError: its task dies, and what it held comes again only after 30 seconds.
    """
    fetch = JetStreamContext.PullSubscription.fetch

    async def patient(self: JetStreamContext.PullSubscription, *arguments: Any, **named: Any) -> list[Msg]:
        try:
            return await fetch(self, *arguments, **named)
        except TimeoutError as error:
            raise nats.errors.TimeoutError from error

    JetStreamContext.PullSubscription.fetch = patient
