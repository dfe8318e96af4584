"""Authentication for the dashboard: one-time login links, signed sessions, and the bearer token for programs.

The secrets are files in the home, so they outlive a process, and are valid in every process of that home.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from conch.config import UiSettings
from conch.config.model import LEAST_TOKEN, is_loopback
from conch.errors import HomeError
from conch.home import Home, locked

KEY_BYTES = 32
"""Bytes of a key: the digest size of SHA-256."""
PREFIX_CHARACTERS = 22
"""Characters of the session path, with six random bits each."""
LINK_SECONDS = 24 * 3600.0
"""Seconds for which a link admits one login: a run started in the evening can be opened in the morning."""
SESSION_SECONDS = 7 * 24 * 3600.0
"""Seconds for which a session is valid without a new link."""

MOST_ENDED = 10_000
"""Most revoked sessions remembered until they expire; revoking a further one fails with an error."""

_DRAWN = re.compile(r"[A-Za-z0-9_-]{43}")
"""The format of `secrets.token_urlsafe(32)`."""
_SESSION = re.compile(r"(\d{1,12})\.([A-Za-z0-9_-]{22})\.([0-9a-f]{64})", re.ASCII)


class LoginTokens:
    """The login tokens of one home. Times are in seconds since the epoch."""

    def __init__(self, home: Home) -> None:
        self._room = home.path / "ui"
        self._links = self._room / "links"
        self._ended = self._room / "ended"

    # -- login links -------------------------------------------------------------------------------------------------

    def link(self, now: float) -> str:
        """A token that admits one login within LINK_SECONDS. Older links are deleted meanwhile.

        Raises HomeError where it cannot be stored.
        """
        token = secrets.token_urlsafe(32)
        with self._writing():
            self._links.mkdir(mode=0o700, exist_ok=True)
            for old in self._links.iterdir():
                with contextlib.suppress(FileNotFoundError):  # another process deleted it first
                    if now - old.stat().st_mtime > LINK_SECONDS:
                        old.unlink()
            file = self._file(token)
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.utime(file, (now, now))
        return token

    def redeem(self, token: str, now: float) -> bool:
        """Whether this token admits a login; it is used up by that: of any number of concurrent attempts, in any
        processes, one succeeds. Raises HomeError where its use cannot be recorded."""
        if not _DRAWN.fullmatch(token):
            return False
        file = self._file(token)
        try:
            made = file.stat().st_mtime
            file.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise HomeError(self._sentence(error)) from error
        return now - made <= LINK_SECONDS

    def _file(self, token: str) -> Path:
        """Named by the token's digest: a backup of the home contains no token."""
        return self._links / _digest(token)

    # -- revoked sessions ----------------------------------------------------------------------------------------------

    def end(self, session: str, now: float) -> None:
        """Revoke this signed session, in all processes of this home and across restarts. A second call does nothing.
        Expired entries are removed meanwhile.

        Raises HomeError where it cannot be recorded.
        """
        with self._writing():
            self._ended.mkdir(mode=0o700, exist_ok=True)
            kept = 0
            for old in self._ended.iterdir():
                with contextlib.suppress(FileNotFoundError):  # another process deleted it first
                    if old.stat().st_mtime <= now:
                        old.unlink()
                    else:
                        kept += 1
            if kept >= MOST_ENDED:
                raise HomeError(
                    f"{MOST_ENDED} sessions were ended within a week, and no more are remembered: remove key and ended "
                    f"in {self._room} and start the dashboard again, which ends all that there are"
                )
            until, file = float(session.partition(".")[0]), self._ended / _digest(session)
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
            os.utime(file, (until, until))
            _sync(self._ended)

    def is_ended(self, session: str) -> bool:
        """Whether it was revoked before its expiry. Raises HomeError where that cannot be looked up."""
        try:
            (self._ended / _digest(session)).stat()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise HomeError(self._sentence(error)) from error
        return True

    # -- sessions and the token of programs --------------------------------------------------------------------------

    def key(self) -> bytes:
        """The key that signs this home's sessions, generated once. Raises HomeError if it cannot be read or stored."""
        try:
            key = bytes.fromhex(self._kept("key", secrets.token_hex(KEY_BYTES)))
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise HomeError(
                f"{self._room / 'key'} holds no key: remove it, and a new one is made (all must log in anew)"
            )
        return key

    def token(self) -> str:
        """The bearer token for programs, generated once. Raises HomeError where it cannot be read or stored."""
        token = self._kept("token", secrets.token_urlsafe(32))
        if len(token) < LEAST_TOKEN:
            raise HomeError(
                f"{self._room / 'token'} is empty or holds less than {LEAST_TOKEN} characters: remove it, and a new "
                "token is made"
            )
        return token

    def _kept(self, name: str, drawn: str) -> str:
        """The content of the file; a missing file is created with `drawn`, unless another process created it first."""
        file = self._room / name
        with self._writing():
            if not file.exists():
                beside = file.with_name(f".{name}.{os.getpid()}.{secrets.token_hex(4)}")
                handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                try:
                    with os.fdopen(handle, "w", encoding="utf-8") as stream:
                        stream.write(f"{drawn}\n")
                        stream.flush()
                        os.fsync(stream.fileno())
                    with contextlib.suppress(FileExistsError):
                        os.link(beside, file)
                finally:
                    beside.unlink(missing_ok=True)
            _refuse_shared(file, 0o600)
            return file.read_text(encoding="ascii", errors="replace").strip()

    # -- the page's address ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def shown_at(self, address: str) -> Iterator[None]:
        """Publish this address for `shown` while entered. If another process serves this home already, its address
        stays. The kernel releases the lock with the process. On a full disk no address is published, and the page is
        still served."""
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                self._room.mkdir(parents=True, exist_ok=True, mode=0o700)
                handle = os.open(self._room / "address", os.O_RDWR | os.O_CREAT, 0o600)
                held.callback(os.close, handle)
                if locked(handle):
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, address.encode(), 0)
            yield

    def shown(self) -> str | None:
        """The address where this home's dashboard is served, or None."""
        try:
            handle = os.open(self._room / "address", os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(handle, 1000, 0).decode(errors="replace") or None
        else:
            return None
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Enter the tokens' directory, created if missing, owned by this user. Each failure is one sentence."""
        try:
            self._room.mkdir(parents=True, exist_ok=True, mode=0o700)
            for directory in (self._room, self._links, self._ended):
                with contextlib.suppress(FileNotFoundError):
                    _refuse_shared(directory, 0o755)
            yield
        except OSError as error:
            raise HomeError(self._sentence(error)) from error

    def _sentence(self, error: OSError) -> str:
        return (
            f"{self._room} cannot be used ({error.strerror}), and without it nobody can be let in to the dashboard: "
            "make room, mend its permissions, or choose another --home"
        )


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _sync(directory: Path) -> None:
    """fsync the directory, so that its new entries survive a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refuse_shared(path: Path, widest: int) -> None:
    """Raises HomeError where other users may have put this there, or have more rights on it than the mode `widest`
    grants; OSError where it cannot be examined."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        wrong = "is a symbolic link: remove it, and it is made anew"
    elif found.st_uid != os.geteuid():
        wrong = "belongs to another user: remove it, and it is made anew"
    elif stat.S_IMODE(found.st_mode) & 0o777 & ~widest:
        wrong = f"is open to others (mode {stat.S_IMODE(found.st_mode):o}): chmod go-rwx {path}"
    else:
        return
    raise HomeError(f"nobody is let in to the dashboard, as {path} {wrong}")


def session_cookie(port: int) -> str:
    """The name of the cookie that holds a session of the page at this port."""
    return f"conch_session_{port}"


def session_prefix(key: bytes, port: int) -> str:
    """The secret path prefix of session pages, `/~…`, the same for as long as the key is.

    Browsers send a cookie to every port of a host, so any other server at 127.0.0.1 that a user opens would get the
    session. They do not send it outside the cookie's path, and only the page itself knows this path.
    """
    digest = hmac.new(key, f"path of the sessions at port {port}".encode(), hashlib.sha256).digest()
    return f"/~{base64.urlsafe_b64encode(digest)[:PREFIX_CHARACTERS].decode()}"


def session_audience(key: bytes, port: int) -> str:
    """The audience of sessions at this port: the cookie's name, and the path prefix."""
    return f"{session_cookie(port)} {session_prefix(key, port)}"


def signed_session(key: bytes, audience: str, now: float) -> str:
    """A signed session, valid until SESSION_SECONDS from `now`, for one `audience` alone."""
    said = f"{int(now + SESSION_SECONDS)}.{secrets.token_urlsafe(16)}"
    return f"{said}.{_signature(key, audience, said)}"


def admits(key: bytes, audience: str, session: str, now: float) -> bool:
    """Whether this session has our signature for this audience and has not expired. Never raises."""
    read = _SESSION.fullmatch(session)
    if read is None:
        return False
    until, nonce, signature = read.groups()
    return same(signature, _signature(key, audience, f"{until}.{nonce}")) and now < int(until)


def _signature(key: bytes, audience: str, said: str) -> str:
    return hmac.new(key, f"{audience}\n{said}".encode(), hashlib.sha256).hexdigest()


def same(shown: str, kept: str) -> bool:
    """Whether two secrets are equal, in constant time."""
    return hmac.compare_digest(shown.encode(errors="replace"), kept.encode(errors="replace"))


def called(settings: UiSettings, address: str) -> str:
    """The address under which browsers reach the page that listens at `address` (http://host:port): where it is open to
    other machines, the first of ui.origins."""
    if not is_loopback(settings.host):
        if settings.origins:
            return settings.origins[0]
        return address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    return address


def link_to(address: str, token: str) -> str:
    """The address of a one-time login."""
    return f"{address}/?token={token}"
