"""The server's own limit: a bare socket, commands rendered beforehand, every acknowledgement counted.

Nearly free on the client's side, so what is left is what nats-server can do on this machine.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Sequence

Span = tuple[float, float]
"""When something began and ended, by `time.perf_counter`."""

_CHUNK = 128
"""Messages to a send."""


class Wire:
    """A connection that is spoken to by hand."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.inbox = f"_INBOX.{secrets.token_hex(6)}".encode()
        self.heard = self._tail = b""
        self.receive(4096)
        self.socket.sendall(
            b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB %b 1\r\n' % self.inbox
        )
        self.settle()

    def settle(self) -> None:
        """Until the server has taken all that was sent."""
        self.socket.sendall(b"PING\r\n")
        heard = b""
        while b"PONG\r\n" not in heard:
            heard = heard[-8:] + self.receive(4096)

    def count(self, mark: bytes, most: int) -> int:
        """How often `mark` came with the next bytes; one that is cut in two counts when its end comes."""
        self.heard = self._tail + self.receive(most)
        self._tail = self.heard[1 - len(mark) :]
        return self.heard.count(mark)

    def receive(self, most: int) -> bytes:
        """What comes next."""
        found = self.socket.recv(most)
        if not found:
            raise ConnectionError("the server hung up on the raw socket")
        return found

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def publish(port: int, messages: Sequence[tuple[str, bytes]], *, window: int = 8192) -> Span:
    """Publish all and count their acknowledgements, at most `window` outstanding; when it began and ended."""
    with Wire(port) as wire:
        chunk = min(_CHUNK, window)
        lines = [b"PUB %b %b %d\r\n%b\r\n" % (name.encode(), wire.inbox, len(data), data) for name, data in messages]
        chunks = [b"".join(lines[at : at + chunk]) for at in range(0, len(lines), chunk)]
        room = threading.Semaphore(max(1, window // chunk))

        def send() -> None:
            for part in chunks:
                room.acquire()
                wire.socket.sendall(part)

        sender = threading.Thread(target=send)
        began = time.perf_counter()
        sender.start()
        stored = released = 0
        while stored < len(messages):
            stored += wire.count(b'"seq":', 1 << 18)
            if b'"error"' in wire.heard:
                raise AssertionError(f"the server refused: {wire.heard[-300:]!r}")
            for _ in range(stored // chunk - released):
                room.release()
            released = stored // chunk
        sender.join()
        return began, time.perf_counter()


def consume(port: int, stream: str, durable: str, count: int) -> Span:
    """Pull `count` messages from a durable, acknowledge the last for all; when it began and ended."""
    with Wire(port) as wire:
        request = json.dumps({"batch": count, "expires": 60_000_000_000}).encode()
        began = time.perf_counter()
        call = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}".encode()
        wire.socket.sendall(b"PUB %b %b %d\r\n%b\r\n" % (call, wire.inbox, len(request), request))
        got, mark = 0, b" $JS.ACK."
        while got < count:
            got += wire.count(mark, 1 << 20)
        last = wire.heard[wire.heard.rfind(mark) + 1 :]
        while b"\r\n" not in last:
            last += wire.receive(4096)
        reply = last.split(b" ", 1)[0]
        wire.socket.sendall(b"PUB %b 0\r\n\r\n" % reply)
        wire.settle()
        return began, time.perf_counter()


def steady(port: int, subject: str, data: bytes, *, waiting: int, seconds: float) -> float:
    """Publish for `seconds` with `waiting` messages always on their way, a write to the server each; a second."""
    with Wire(port) as wire:
        line = b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), wire.inbox, len(data), data)
        began = time.perf_counter()
        wire.socket.sendall(line * waiting)
        out, stored = waiting, 0
        while out:
            got = wire.count(b'"seq":', 1 << 18)
            stored, out = stored + got, out - got
            if got and time.perf_counter() - began < seconds:
                wire.socket.sendall(line * got)
                out += got
        return stored / (time.perf_counter() - began)
