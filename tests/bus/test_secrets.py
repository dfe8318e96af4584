"""Nothing that opens a server is ever said: not in a log, at whatever level, and not in an error."""

from __future__ import annotations

import asyncio
import logging
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.errors import ConchError

if TYPE_CHECKING:
    from tests.bus.conftest import Authority, Key, Papers, Server
    from tests.conftest import Until


SUBJECT = "conch.v1.echo.action.taken"
MARK = "hush-3f81c07a"
"""What no line may hold."""
WAYS = ("token", "password", "address", "nkey", "credentials", "certificate")


class Way:
    """A way into a server, and its secrets."""

    def __init__(self, name: str, directory: Path, papers: Any, authority: Any, new_key: Callable[..., Any]) -> None:
        self._name = name
        self._file = directory / "secret"
        self.secrets = [MARK]
        self.opens, self.refuses = "", 'authorization { user: other, password: "other" }\njetstream {}'
        if name == "nkey":
            key = new_key()
            self._file.write_text(key.seed)
            self.secrets = [key.seed]
            self.opens = f"authorization {{ users: [ {{ nkey: {key.public} }} ] }}\njetstream {{}}"
        elif name == "credentials":
            text = authority.credentials()
            self._file.write_text(text)
            lines = text.splitlines()
            self.secrets = [lines[1], next(line for line in lines if line.startswith("SU"))]
            self.opens, self.refuses = authority.configuration, type(authority)().configuration
        elif name == "certificate":
            self.mine = papers.mine("me")
            self.secrets = Path(self.mine["key"]).read_text().splitlines()[1:-1]
            self.opens, self.refuses = papers.mutual() + "\njetstream {}", papers.tls("expired") + "\njetstream {}"
        else:
            who = "" if name == "token" else "user: me, "
            self.opens = (
                f"authorization {{ {who}{'token' if name == 'token' else 'password'}: {MARK} }}\njetstream {{}}"
            )

    def access(self, url: str) -> Access:
        """To a server at this address."""
        if self._name == "address":
            return Access(url.replace("//", f"//me:{MARK}@"))
        if self._name == "password":
            return Access(url, user="me", password=MARK)
        if self._name == "certificate":
            return Access(url.replace("127.0.0.1", "localhost"), **self.mine)
        return Access(url, **{self._name: MARK if self._name == "token" else str(self._file)})


@pytest.mark.parametrize("name", WAYS)
async def test_no_secret_is_said(
    name: str,
    tmp_path: Path,
    server: Server,
    papers: Papers,
    authority: Authority,
    new_key: type[Key],
    until: Until,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Let in, lost, refused, taken back, refused at the first time, and with its file broken."""
    way = Way(name, tmp_path, papers, authority, new_key)
    url = server.start(way.opens)
    access = way.access(url)
    said = [repr(access), access.shown, access.address]
    with structlog.testing.capture_logs() as lines, caplog.at_level(logging.DEBUG):
        async with JetStreamBus(access) as bus:
            await bus.publish(SUBJECT, b"", id=os.urandom(4).hex())
            server.stop()
            server.start(way.refuses)
            await until(lambda: bus.refusal)
            said.append(bus.refusal)
            server.stop()
            server.start(way.opens)
            await until(lambda: bus.connected)
        server.stop()
        server.start(way.refuses)
        said.append(await _failure(access))
        (tmp_path / "secret").write_text("no key")
        said.append(await _failure(access))

    written = "\n".join([*map(repr, lines), caplog.text, *capfd.readouterr(), *said])

    assert "bus.refused" in written
    assert "Traceback" in written
    assert not [secret for secret in way.secrets if secret in written]


async def _failure(access: Access) -> str:
    """The whole of what a first connection fails with, causes and all."""
    try:
        async with asyncio.timeout(30), JetStreamBus(access):
            pytest.fail("it let us in")
    except ConchError as error:
        return "".join(traceback.format_exception(error)) + repr(error)
