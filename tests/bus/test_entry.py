"""Coming into a server that asks who we are: every way that opens it, and every reason that keeps us out."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.jetstream.connection import Connection
from conch.errors import BusUnreachableError
from tests.serving import listening

if TYPE_CHECKING:
    from tests.bus.conftest import Authority, Key, Papers, Server
    from tests.conftest import Until


SUBJECT = "conch.v1.echo.action.taken"
SOON = 20.0
"""Seconds: a refusal is told at once; asked again and again it would take the 60 that a connection is given here."""
USERS = 'authorization { users: [ { user: me, password: "p/q" } ] }\njetstream {}'

Serve = Callable[[str], str]


def of_key(key: Any) -> str:
    """The configuration of a server that knows this key."""
    return f"authorization {{ users: [ {{ nkey: {key.public} }} ] }}\njetstream {{}}"


def named(url: str) -> str:
    """The same server, by the name that its certificate holds."""
    return url.replace("127.0.0.1", "localhost")


async def refused(access: Access) -> str:
    """Why this access leads nowhere, told at once."""
    async with asyncio.timeout(SOON):
        with pytest.raises(BusUnreachableError) as why:
            async with Connection(access, connect_timeout=60):
                pytest.fail("it let us in")
    return str(why.value)


async def works(access: Access) -> bool:
    """Whether an event can be stored and read there."""
    async with asyncio.timeout(SOON), JetStreamBus(access, connect_timeout=60) as bus:
        stored = await bus.publish(SUBJECT, b"hello", id=os.urandom(4).hex())
        found = await bus.at(stored.seq)
        return found is not None and found.data == b"hello"


async def test_user_and_password_open_a_server(serve: Serve) -> None:
    """By settings, or in the address."""
    url = serve(USERS)

    assert await works(Access(url, user="me", password="p/q"))
    assert await works(Access(url.replace("//", "//me:p%2Fq@")))


async def test_a_key_opens_a_server(tmp_path: Path, serve: Serve, new_key: type[Key]) -> None:
    """Its challenge is signed; the seed stays here."""
    key = new_key()
    (tmp_path / "me.nk").write_text(key.seed)

    assert await works(Access(serve(of_key(key)), nkey=str(tmp_path / "me.nk")))


async def test_credentials_open_a_server(tmp_path: Path, serve: Serve, authority: Authority) -> None:
    """A user of an account that the server's operator knows."""
    (tmp_path / "me.creds").write_text(authority.credentials())

    assert await works(Access(serve(authority.configuration), credentials=str(tmp_path / "me.creds")))


async def test_tls_opens_a_server(serve: Serve, papers: Papers) -> None:
    """With its CA; with a certificate of ours where it asks for one."""
    plain, mutual = (named(serve(f"{tls}\njetstream {{}}")) for tls in (papers.tls("server"), papers.mutual()))

    assert await works(Access(plain, ca=str(papers.path("ca"))))
    assert await works(Access(mutual, **papers.mine("me")))


async def test_a_server_that_does_not_insist_on_tls_is_entered_with_it(serve: Serve, papers: Papers) -> None:
    """Where TLS is asked for, nothing goes over the line without."""
    url = named(serve(f"allow_non_tls: true\n{papers.tls('server')}"))

    async with Connection(Access(url, ca=str(papers.path("ca")))) as connection:
        writer = connection.client._transport._io_writer  # type: ignore[union-attr]

        assert writer.get_extra_info("cipher") is not None


@pytest.mark.parametrize(
    ("access", "why"),
    [
        pytest.param({"user": "me", "password": "hush"}, r"the user or the password \(bus\.user", id="password"),
        pytest.param({"token": "hush"}, r"the token \(bus\.token\)", id="token"),
        pytest.param({}, r"lets nobody in without a name: set bus\.token", id="nobody"),
        pytest.param({"before": "me:hush@"}, r"the user that bus\.url names", id="address"),
    ],
)
async def test_who_is_not_let_in_hears_which_setting_it_was(access: dict[str, str], why: str, serve: Serve) -> None:
    """In one sentence with the address and no secret, at once."""
    url = serve(USERS)
    given = {name: value for name, value in access.items() if name != "before"}

    sentence = await refused(Access(url.replace("//", f"//{access.get('before', '')}"), **given))

    assert re.fullmatch(rf"the bus at {url} (refused )?{why}.*", sentence), sentence
    assert "hush" not in sentence


async def test_a_key_or_credentials_that_the_server_does_not_know_are_refused(
    tmp_path: Path, serve: Serve, authority: Authority, new_key: type[Key]
) -> None:
    """In one sentence with the setting, at once."""
    file = tmp_path / "file"
    known, other = new_key(), type(authority)()

    file.write_text(new_key().seed)
    assert "refused the key (bus.nkey)" in await refused(Access(serve(of_key(known)), nkey=str(file)))
    file.write_text(other.credentials())
    url = serve(authority.configuration)
    assert "refused the credentials (bus.credentials)" in await refused(Access(url, credentials=str(file)))


@pytest.mark.parametrize(
    ("server", "access", "why"),
    [
        pytest.param(
            "server", {}, "signed by somebody whom this system does not know: name them in bus.tls.ca", id="-"
        ),
        pytest.param("server", {"ca": "other-ca"}, "signed by somebody whom bus.tls.ca does not hold", id="other ca"),
        pytest.param("expired", {"ca": "ca"}, "has expired", id="expired"),
        pytest.param("server", {"ca": "ca", "hostname": "x.test"}, r"not for x.test \(bus.tls.hostname\)", id="name"),
        pytest.param("mutual", {"ca": "ca"}, "asks for a certificate of ours: set bus.tls.certificate", id="no own"),
        pytest.param(
            "mutual", {"mine": "me-expired"}, r"our certificate \(bus.tls.certificate\) has expired", id="old"
        ),
        pytest.param("mutual", {"mine": "me-of-others"}, r"does not accept our certificate \(bus.tls", id="stranger"),
        pytest.param("", {"ca": "ca"}, "offers no TLS, and bus.tls asks for it", id="plain"),
    ],
)
async def test_tls_that_does_not_come_about_is_one_sentence(
    server: str, access: dict[str, str], why: str, serve: Serve, papers: Papers
) -> None:
    """Which server, what is wrong, which setting; at once."""
    url = named(serve("" if not server else papers.mutual() if server == "mutual" else papers.tls(server)))
    given = papers.mine(access["mine"]) if "mine" in access else dict(access)
    if given.get("ca") in ("ca", "other-ca"):
        given["ca"] = str(papers.path(given["ca"]))

    sentence = await refused(Access(url, **given))

    assert re.search(why, sentence), sentence
    assert url in sentence


async def test_an_address_that_the_certificate_does_not_hold_is_told(serve: Serve, papers: Papers) -> None:
    """With what to do."""
    url = serve(papers.tls("server"))

    sentence = await refused(Access(url, ca=str(papers.path("ca"))))

    assert "is not for the name in bus.url: use a name that it holds, in bus.url or bus.tls.hostname" in sentence


class Impostor:
    """Something on a port that says it is a NATS server without TLS, and keeps what it is told."""

    def __init__(self, *, answers: bool = False) -> None:
        self.heard, self._answers = b"", answers

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"headers":true}\r\n')
        if self._answers:
            self.heard += await reader.readline()
            writer.write(b"PONG\r\n")
        else:
            self.heard += await reader.read(4096)
        writer.close()


async def test_no_secret_is_said_where_tls_was_asked_for_and_is_not_offered() -> None:
    """By settings, or by tls:// in the address: whoever stands between could take it down."""
    for scheme, given in (("tls", {}), ("nats", {"hostname": "localhost"})):
        impostor = Impostor()
        async with listening(impostor) as port:
            url = f"{scheme}://localhost:{port}"

            assert "offers no TLS" in await refused(Access(url, token="hush", **given))
        assert impostor.heard == b""


async def test_a_server_that_hangs_up_is_no_bus() -> None:
    """Not even when it greeted us before."""
    async with listening(Impostor(answers=True)) as port:
        url = f"nats://127.0.0.1:{port}"

        sentence = await refused(Access(url))

    assert re.match(rf"no bus at {url}: ", sentence), sentence


async def test_of_several_servers_one_that_lets_us_in_is_enough(serve: Serve, papers: Papers) -> None:
    """When none does, it is told at once."""
    good, expired = named(serve(papers.tls("server"))), named(serve(papers.tls("expired")))
    ca = str(papers.path("ca"))

    async with Connection(Access(f"{expired},{good}", ca=ca), connect_timeout=SOON) as connection:
        assert (connection.connected, connection.refusal) == (True, "")
    assert re.search("has expired|offers no TLS", await refused(Access(f"{expired},{named(serve(''))}", ca=ca)))


async def test_a_user_in_the_address_counts_for_servers_that_are_told_of_later(
    serve: Serve, server: Server, until: Until
) -> None:
    """One of a cluster is named and lost: the others, which it has told of, let us in as well."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        route = free.getsockname()[1]
    user = "authorization { user: me, password: p }"
    first = server.start(f'{user}\ncluster {{ name: c, listen: "127.0.0.1:{route}" }}')
    serve(f'{user}\ncluster {{ name: c, listen: "127.0.0.1:-1", routes: [ "nats://127.0.0.1:{route}" ] }}')
    async with Connection(Access(first.replace("//", "//me:p@"))) as connection:
        await until(lambda: connection.client.discovered_servers)

        server.stop()

        await until(lambda: connection.connected and not connection.client.server.endswith(first.rpartition(":")[2]))


async def test_a_server_that_comes_back_with_another_token_is_asked_again_until_it_knows_ours(
    server: Server, until: Until
) -> None:
    """That it refuses us is said once; what waited is stored when it lets us in."""
    url = server.start("authorization { token: ours }\njetstream {}")
    with structlog.testing.capture_logs() as said:
        async with JetStreamBus(Access(url, token="ours")) as bus:
            server.stop()
            server.start("authorization { token: theirs }\njetstream {}")
            publishing = asyncio.ensure_future(bus.publish(SUBJECT, b"", id="1"))
            await until(lambda: bus._connection.client._server_pool[0].reconnects > 2)
            assert bus.refusal == f"the bus at {url} refused the token (bus.token)"
            assert not publishing.done()
            server.stop()
            server.start("authorization { token: ours }\njetstream {}")

            assert (await asyncio.wait_for(publishing, SOON)).seq == 1
            assert not bus.refusal

    refusals = [line for line in said if line["event"] == "bus.refused"]
    assert [line["why"] for line in refusals] == [f"the bus at {url} refused the token (bus.token)"]
    assert refusals[0]["log_level"] == "warning"


async def test_credentials_that_break_in_mid_run_are_waited_for(
    tmp_path: Path, server: Server, authority: Authority, until: Until
) -> None:
    """Whoever writes a file of keys anew may be seen half-way; the connection comes back when it is whole."""
    file = tmp_path / "me.creds"
    file.write_text(authority.credentials())
    url = server.start(authority.configuration)
    with structlog.testing.capture_logs() as said:
        async with JetStreamBus(Access(url, credentials=str(file))) as bus:
            server.stop()
            file.write_text("half")
            server.start(authority.configuration)
            await until(lambda: [line for line in said if line["event"] == "bus.refused"])

            file.write_text(authority.credentials())

            await until(lambda: bus.connected)
    assert f"bus.credentials: {file} holds no user JWT" in next(line["why"] for line in said if "why" in line)
    assert "bus.reconnecting_died" not in {line["event"] for line in said}
