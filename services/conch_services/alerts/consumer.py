"""The alerts consumer: reads limits of budgets, alarms, failed rounds of training and rollbacks, publishes nothing,
posts to `alerts.webhook`.

As a consumer it holds up no agent. A post that fails is tried again with the consumers' back-off; after the last try it
is a dead letter, which `conch dlq retry` posts again.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from conch import consumer
from conch.consumer import ServiceContext
from conch_schemas import AdapterRolledBack, AlarmRaised, BudgetReached, Event, JsonObject, TrainingFailed, wire_form

if TYPE_CHECKING:
    from conch_services.alerts.webhook import Webhook

STALE = timedelta(hours=1)
"""Age of an event from which on it is no alert any more: a webhook that is set later is not told the past."""


def _made(context: ServiceContext) -> Webhook:
    from conch_services.alerts.webhook import Webhook  # with httpx2, for runs that have one

    return Webhook.of(context.settings.alerts)


@consumer(
    BudgetReached,
    AlarmRaised,
    TrainingFailed,
    AdapterRolledBack,
    name="alerts",
    setup=_made,
    close=lambda webhook: webhook.close(),
    enabled_by="alerts.webhook",
)
async def alerts(event: Event, webhook: Webhook) -> None:
    """Post an alert; an alarm that ends is none, nor a round that is tried again, nor a rollback that a person asked
    for. Raises WebhookError."""
    if datetime.now(UTC) - event.time < STALE and _is_news(event):
        await webhook.post(event.id, alert_of(event))


def _is_news(event: Event) -> bool:
    match event:
        case AlarmRaised():
            return event.active
        case TrainingFailed():
            return not event.again
        case AdapterRolledBack():
            return event.trigger != "person"
        case _:
            return True


def alert_of(event: Event) -> JsonObject:
    """The body: type, time and data, as the specification of Standard Webhooks has it."""
    data = json.loads(wire_form(event))["data"]
    return {"type": event.TYPE, "timestamp": event.time.isoformat(), "data": {"agent": event.agent, **data}}
