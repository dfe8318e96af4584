"""A server and its streams are what the bus relies on, or are not written to: each mismatch one sentence."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.jetstream.checks import check_server
from conch.bus.jetstream.connection import Connection
from conch.errors import BusError, BusUnreachableError
from conch_schemas import JsonObject

if TYPE_CHECKING:
    from tests.bus.conftest import Server


SECOND = 1_000_000_000
ALIKE = {"name": "CONCH", "subjects": ["conch.v1.>"], "discard": "new", "duplicate_window": 120 * SECOND}
"""Of a stream as we make it, where it is not the server's own default."""


@pytest.mark.parametrize(
    ("level", "version", "strict", "told"),
    [
        (0, "2.9.10", False, "nats-server 2.9.10 is too old"),
        (0, "2.9.10", True, "nats-server 2.9.10 is too old"),
        (4, "2.14.6", True, r"2.14.6 \(JetStream API level 4\) is too old for bus.durability: strict.*: fast"),
        (4, "2.14.6", False, None),
        (1, "2.11.0", False, None),
        (5, "2.15.1", True, None),
    ],
)
def test_a_server_must_know_what_it_is_asked_for(level: int, version: str, strict: bool, told: str | None) -> None:
    """Strict durability needs more of it; one that does not tell what it knows is refused in any case."""
    info = {"api": {"level": level, "total": 1} if level else {"total": 1}}

    if told is None:
        check_server(info, version=version, strict=strict)
    else:
        with pytest.raises(BusUnreachableError, match=told):
            check_server(info, version=version, strict=strict)


@pytest.mark.parametrize("strict", [True, False])
async def test_an_old_server_is_refused_and_nothing_is_made_on_it(old_server: Server, strict: bool) -> None:
    """It would leave out of the stream what it does not know, without a word."""
    url = old_server.start("jetstream {}")

    with pytest.raises(BusUnreachableError, match=r"nats-server 2\.\d+\.\d+ is too old"):
        async with JetStreamBus(Access(url), strict=strict):
            pytest.fail("it was taken")
    async with Connection(Access(url)) as connection:
        assert (await connection.api("STREAM.NAMES"))["streams"] in (None, [])


@pytest.mark.parametrize(
    ("configuration", "told"),
    [
        pytest.param("", "does not answer JetStream requests .* is JetStream enabled", id="none"),
        pytest.param(
            "jetstream {}\naccounts { A: { users: [ { user: me, password: p } ] }, B: { jetstream: enabled } }",
            r"lets us have no JetStream \(.*not enabled for account\): enable it there",
            id="not for this account",
        ),
    ],
)
async def test_a_server_without_jetstream_is_one_sentence(
    configuration: str, told: str, serve: Callable[[str], str]
) -> None:
    """Soon: nobody waits for what is not there."""
    with pytest.raises(BusUnreachableError, match=told):
        async with JetStreamBus(Access(serve(configuration), user="me", password="p")):
            pytest.fail("it was taken")


@pytest.fixture
async def api(serve: Callable[[str], str]) -> AsyncIterator[Callable[..., Awaitable[JsonObject]]]:
    """`await api(call, body)` on a server without a stream."""
    async with Connection(Access(serve("jetstream {}"))) as connection:
        for name in (await connection.api("STREAM.NAMES"))["streams"] or ():
            await connection.api(f"STREAM.DELETE.{name}")
        yield connection.api


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"max_age": 600 * SECOND}, "has max_age 600 s, Conch needs 0 s"),
        ({"max_msgs": 100}, "has max_msgs 100, Conch needs -1"),
        ({"max_msgs_per_subject": 1}, "has max_msgs_per_subject 1, Conch needs -1"),
        ({"max_msg_size": 1000}, "has max_msg_size 1000, Conch needs -1"),
        ({"duplicate_window": SECOND}, "has duplicate_window 1 s, Conch needs 120 s"),
        ({"discard": "old"}, "has discard 'old', Conch needs 'new'"),
        ({"storage": "memory"}, "has storage 'memory', Conch needs 'file'"),
        ({"retention": "interest", "discard": "old"}, "has retention 'interest', Conch needs 'limits'"),
        ({"subjects": ["conch.>"]}, r"has subjects \['conch.>'\], Conch needs \['conch.v1.>'\]"),
        ({"no_ack": True}, "has no_ack True, Conch needs False"),
        ({"deny_purge": True}, "has deny_purge True, Conch needs False"),
        ({"persist_mode": "async"}, "has persist_mode 'async', Conch needs none"),
        ({"subject_transform": {"src": ">", "dest": "x.>"}}, "has subject_transform .*, Conch needs none"),
        ({"sources": [{"name": "OTHER"}]}, "has sources .*, Conch needs none"),
    ],
)
async def test_a_stream_of_somebody_else_with_other_limits_is_refused(
    changes: dict[str, Any], told: str, api: Callable[..., Awaitable[JsonObject]], serve: Callable[[str], str]
) -> None:
    """The field, what it is, what it has to be, what to do; and the stream is left as it is."""
    made = (await api("STREAM.CREATE.CONCH", ALIKE | changes))["config"]

    with pytest.raises(BusError, match=rf"the stream CONCH {told}: mend that stream .* or use another account"):
        async with JetStreamBus(Access(serve("jetstream {}")), strict=True):
            pytest.fail("it was taken")

    assert (await api("STREAM.INFO.CONCH"))["config"] == made


async def test_a_stream_with_a_limit_of_bytes_is_taken(
    api: Callable[..., Awaitable[JsonObject]], serve: Callable[[str], str]
) -> None:
    """Where none was asked for: publishers wait while it is full. More than was asked for is as good."""
    more = {"max_bytes": 2**20, "duplicate_window": 600 * SECOND}
    await api("STREAM.CREATE.CONCH", ALIKE | more)

    async with JetStreamBus(Access(serve("jetstream {}")), strict=True) as bus:
        await bus.publish("conch.v1.echo.action.taken", b"", id="1")

    config = (await api("STREAM.INFO.CONCH"))["config"]
    assert {name: config[name] for name in more} == more
    assert config["allow_atomic"]  # it was made before anybody asked for it


async def test_fewer_replicas_than_were_asked_for_are_refused(
    api: Callable[..., Awaitable[JsonObject]], serve: Callable[[str], str]
) -> None:
    """Whoever asked for three believes in three."""
    async with JetStreamBus(Access(serve("jetstream {}"))):
        pass

    with pytest.raises(BusError, match=r"could not be changed .* bus\.replicas: 3 needs a cluster of as many servers"):
        async with JetStreamBus(Access(serve("jetstream {}")), replicas=3):
            pytest.fail("it was taken")
