"""A fast parser and encoder of the NATS protocol, in place of nats-py's.

nats-py parses with regular expressions and wakes a task per message; passing a message straight to a function costs a
fifth of that. All else than messages of our subscriptions is left to nats-py's parser.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from nats.errors import ProtocolError

Take = Callable[[bytes, bytes, bytes, bytes], None]
"""Called synchronously with (subject, reply, header, data) of a message; header and reply may be empty."""

_MESSAGE, _HEADED = ord("M"), ord("H")
_LONGEST_LINE = 64 * 1024
"""Bytes of a control line; a server's INFO with a large cluster in it is the longest."""
_LONGEST_ID = 128
_VERSION = b"NATS/1.0"


class WireParser:
    """Replaces nats-py's parser, with the same methods. `takes`: handler of each subscription's messages, by number."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.takes: dict[bytes, Take] = {}
        self._rest = b""

    def reset(self) -> None:
        """Drop an incomplete message: a new connection begins."""
        self._rest = b""

    async def parse(self, data: bytes = b"") -> None:
        """Parse bytes from the server. Raises ProtocolError for what is not the NATS protocol."""
        buffer = self._rest + data if self._rest else data
        self._rest = b""
        place, size, takes = 0, len(buffer), self.takes
        while place < size:
            end = buffer.find(b"\r\n", place)
            if end < 0:
                if size - place > _LONGEST_LINE:
                    raise ProtocolError
                break
            kind = buffer[place]
            if kind in (_MESSAGE, _HEADED):
                words = buffer[place:end].split()
                try:
                    whole = int(words[-1])
                    headed = int(words[-2]) if kind == _HEADED else 0
                    reply = words[3] if len(words) == (6 if kind == _HEADED else 5) else b""
                    subject, number = words[1], words[2]
                except (ValueError, IndexError):
                    raise ProtocolError from None
                begin = end + 2
                stop = begin + whole
                if stop + 2 > size:
                    break
                place = stop + 2
                header, body = buffer[begin : begin + headed], buffer[begin + headed : stop]
                take = takes.get(number)
                if take is not None:
                    take(subject, reply, header, body)
                else:
                    await self._client._process_msg(int(number), subject, reply, body, header or None)
            else:
                line, place = buffer[place:end], end + 2
                await self._told(line)
        self._rest = buffer[place:]

    async def _told(self, line: bytes) -> None:
        word = line[:4].upper()
        if word == b"PING":
            await self._client._process_ping()
        elif word == b"PONG":
            await self._client._process_pong()
        elif word == b"-ERR":
            await self._client._process_err(line[5:].decode(errors="replace"))
        elif word == b"INFO":
            try:
                info = json.loads(line[5:])
            except ValueError:
                raise ProtocolError from None
            await self._client._process_info(info)
        elif word[:3] != b"+OK":
            raise ProtocolError


def frame(subject: str, reply: bytes, data: bytes, headers: bytes = b"") -> bytes:
    """An encoded message. `headers`: lines of `name: value`, each with its CR LF; empty: a plain message."""
    if not headers:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply, len(data), data)
    size = len(headers) + 12  # the version's line, and the empty one at the end
    return b"HPUB %b %b %d %d\r\nNATS/1.0\r\n%b\r\n%b\r\n" % (
        subject.encode(),
        reply,
        size,
        size + len(data),
        headers,
        data,
    )


def message_id(id: str) -> bytes:
    """An id as a header value: unchanged where that is valid, else its digest (publishers choose ids freely)."""
    if len(id) <= _LONGEST_ID and id.isascii() and id.isprintable() and " " not in id:
        return id.encode()
    return hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest().encode()


def read_headers(header: bytes) -> tuple[str, str, dict[str, str]]:
    """(status, its description, the fields) of a message's header; empty where there is none."""
    first, _, rest = header.partition(b"\r\n")
    status, _, description = first.removeprefix(_VERSION).strip().decode(errors="replace").partition(" ")
    fields = {}
    for line in rest.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon:
            fields[name.decode(errors="replace")] = value.strip().decode(errors="replace")
    return status, description, fields
