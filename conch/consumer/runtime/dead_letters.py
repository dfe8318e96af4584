"""Dead letters: events that a consumer could not handle, published as an event on the bus."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

from conch.bus import Bus, Delivery, LetterRecord, letter_key
from conch.consumer.spec import ConsumerSpec
from conch.errors import ConchError, FencedError
from conch.text import cut, safe_text
from conch_schemas import (
    ConsumerFailed,
    ContractViolationError,
    agent_of,
    decode,
    encode,
    source_of,
    subject_filter,
    subject_of,
)
from conch_schemas.envelope import AGENT_PATTERN

DEAD_LETTER_BYTES = 64 * 1024
NOBODY = "unknown"
"""The agent of a dead letter whose subject names none."""


def dead_letter(spec: ConsumerSpec, delivery: Delivery, reason: str, tries: int) -> ConsumerFailed:
    """The event that `delivery` could not be handled. The same dead letter made twice has the same id."""
    agent = agent_of(delivery.subject) or NOBODY
    if not re.match(AGENT_PATTERN, agent):
        agent = NOBODY
    letter = base64.b64encode(delivery.data).decode() if len(delivery.data) <= DEAD_LETTER_BYTES else ""
    return ConsumerFailed(
        id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"conch/dead/{spec.name}/{delivery.seq}/{delivery.time}")),
        source=source_of(agent, "-"),
        agent=agent,
        consumer=spec.name,
        version=spec.version,
        letter_subject=safe_text(delivery.subject, one_line=True),
        letter_seq=delivery.seq,
        letter=letter,
        reason=cut(safe_text(reason, one_line=True), 2000).text,
        tries=tries,
    )


async def publish_dead_letter(bus: Bus, letter: ConsumerFailed) -> None:
    """Put it on the stream."""
    await bus.publish(subject_of(letter), encode(letter), id=letter.id)


async def open_dead_letters(bus: Bus, *, settled: bool = False) -> AsyncIterator[ConsumerFailed]:
    """The dead letters that are neither retried with success nor dropped yet, oldest first; with `settled`, all."""
    done = set(await bus.keys())
    async for delivery in bus.read([subject_filter(ConsumerFailed)]):
        try:
            letter = decode(delivery.data)
        except ContractViolationError:
            continue
        if isinstance(letter, ConsumerFailed) and (settled or letter_key(letter.id) not in done):
            yield letter


async def settle(bus: Bus, letter: ConsumerFailed, how: Literal["retried", "dropped"]) -> None:
    """Record that a dead letter was `retried` or `dropped`. A second call changes nothing."""
    with contextlib.suppress(FencedError):
        await bus.put(letter_key(letter.id), LetterRecord(how).encode(), revision=0)


async def dead_letter_named(bus: Bus, name: str) -> ConsumerFailed:
    """The open dead letter whose id begins with `name`. Raises ConchError when there is none, or more than one."""
    found = [letter async for letter in open_dead_letters(bus) if letter.id.startswith(name)]
    if len(found) != 1:
        raise ConchError(f"{len(found)} dead letters begin with {name!r}: conch dlq list shows them")
    return found[0]


async def answer_retry(retry: Callable[[int], Awaitable[None]], data: bytes) -> bytes:
    """The reply to `{"seq": …}`, a request to handle the event of a dead letter once more: `ok`, or why not."""
    try:
        await retry(int(json.loads(data)["seq"]))
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}"}).encode()
    return b'{"ok":true}'
