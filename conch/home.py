"""The home directory: paths, permissions and ownership of all the files of a run; one run owns it at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from conch.errors import HomeBusyError, HomeError
from conch.files import read_plain
from conch.run_info import RunInfo
from conch.version import describe_writer, own_version, read_version

DEFAULT_HOME = "~/.local/share/conch"
FORMAT = 1
"""Version of the home's layout. A newer home is refused."""
_LONGEST_VERSION = 1024
"""Bytes of the file with the version that are read: a longer one is damaged."""


@dataclass(frozen=True)
class Home:
    """The paths of a home directory, and its lock."""

    path: Path

    @classmethod
    def at(cls, path: Path | str | None) -> Self:
        """The home at `path`, with `~` expanded; None: the one that CONCH_HOME names, else DEFAULT_HOME."""
        return cls(Path(path or os.environ.get("CONCH_HOME") or DEFAULT_HOME).expanduser().absolute())

    @property
    def version_file(self) -> Path:
        """The version of Conch that last ran in the home; not there in a home of before 0.2.0."""
        return self.path / "version"

    @property
    def config_file(self) -> Path:
        """The configuration of this home."""
        return self.path / "conch.yaml"

    @property
    def bus(self) -> Path:
        """The embedded server's store, configuration and log."""
        return self.path / "bus"

    @property
    def logs(self) -> Path:
        """Rotated log files, one per process."""
        return self.path / "logs"

    @property
    def workspace(self) -> Path:
        """The agent's default working directory."""
        return self.path / "workspace"

    @property
    def keys(self) -> Path:
        """Keys of the users of a shared bus, one per file."""
        return self.path / "keys"

    @property
    def adapters(self) -> Path:
        """Trained adapters, a directory for each digest."""
        return self.path / "adapters"

    def generations(self, agent: str) -> Path:
        """Frozen parameters of an agent's embedded mind, a file for each digest."""
        return self.agent_dir(agent) / "generations"

    @property
    def training(self) -> Path:
        """Rounds of training, a directory for each."""
        return self.path / "training"

    @property
    def endpoints(self) -> Path:
        """Which constraint on decoding the mind's endpoints take, one file for each endpoint and model."""
        return self.path / "endpoints"

    @property
    def run_file(self) -> Path:
        """The description of the run in progress: addresses, token, processes."""
        return self.path / "run.json"

    @property
    def forget_file(self) -> Path:
        """The request to forget that is being carried out; there while it is not done."""
        return self.path / "forget.json"

    @property
    def acknowledged_file(self) -> Path:
        """The alarms that a person has acknowledged; there once one was."""
        return self.path / "acknowledged.json"

    def agent_dir(self, agent: str) -> Path:
        """One agent's files: its id, notes, and its mind's memory."""
        return self.path / "agents" / agent

    def reflex_file(self, agent: str) -> Path:
        """What the agent's embedded mind has learnt."""
        return self.agent_dir(agent) / "reflex.npz"

    def make(self) -> None:
        """Create the missing directories, and the file with the format version. A second call changes nothing.

        Raises HomeError when it cannot be written, or was made by a newer version.
        """
        try:
            for directory in (self.path, self.logs, self.path / "agents"):
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            mark = self.path / "format"
            if not mark.exists():
                write_whole(mark, f"{FORMAT}\n")
                self.name_version()
        except OSError as error:
            raise HomeError(_sentence(self.path, error)) from error
        self.refuse_newer()

    def close_to_others(self) -> str | None:
        """Remove other users' rights from a home that all users can read. Returns a sentence on what was done or is to
        do."""
        found = self.path.stat()
        if not found.st_mode & 0o007:
            return None
        open_to = f"{self.path} could be read by everybody (mode {found.st_mode & 0o777:o})"
        if found.st_uid != os.geteuid():
            return f"{open_to} and belongs to another user: its owner should chmod 700 it"
        self.path.chmod(0o700)
        return f"{open_to}: its mode is 700 now"

    def refuse_newer(self) -> None:
        """Raises HomeError when the home was made by a newer version, or its format version cannot be read."""
        try:
            found = (self.path / "format").read_text(encoding="utf-8", errors="replace").strip()
        except OSError as error:
            raise HomeError(_sentence(self.path, error)) from error
        if not found:
            raise HomeError(f"{self.path / 'format'} is empty: it was damaged; write {FORMAT} into it")
        if found.isdigit() and int(found) <= FORMAT:
            return
        writer, advice = describe_writer(self.read_writer(), "a newer version")
        raise HomeError(
            f"{self.path} was written by {writer} (format {found[:20]!r}, this one knows {FORMAT}): {advice}, or "
            "choose another --home"
        )

    def name_version(self) -> None:
        """Write down that this version of Conch runs in the home. On a full disk, the file stays as it is."""
        own = own_version()
        if own and self.read_writer() != own:
            with contextlib.suppress(OSError):
                write_whole(self.version_file, f"{own}\n")

    def read_writer(self) -> str:
        """The version of Conch that last ran in the home; empty where it is not known: in a home of before 0.2.0, or
        where the file is damaged."""
        try:
            return read_version(read_plain(self.version_file, _LONGEST_VERSION).decode(errors="replace"))
        except OSError:
            return ""

    @contextlib.contextmanager
    def owned(self) -> Iterator[None]:
        """Own the home while entered. Raises HomeBusyError when another process owns it. The kernel releases the lock
        with the process."""
        self.make()
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise HomeError(_sentence(self.path, error)) from error
        try:
            if not locked(handle):
                owner = _owner(handle) or "another process"
                what = "stop that run (conch stop)"
                if self.running() is None:  # a run writes its description once its bus is up
                    what = "that is another command of conch, or a run that begins; try again when it is done"
                raise HomeBusyError(f"{self.path} is in use by process {owner}: {what}, or choose another --home")
            os.ftruncate(handle, 0)
            with contextlib.suppress(OSError):  # a full disk: the lock works without its owner's name
                os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(handle)

    def running(self) -> RunInfo | None:
        """run.json of the run in progress; None where there is no run, or the file cannot be read."""
        owner = self._owner_now()
        if owner is None:
            return None
        try:
            found = RunInfo.decode(self.run_file.read_bytes())
        except (OSError, ValueError):
            return None
        # Another command may hold the lock while the file of a killed run is still there.
        return found if str(found.pid) == owner else None

    def run_damage(self) -> str:
        """A sentence on a run.json that cannot be read, or is no description of a run, while a process owns the home;
        empty where there is no such file, or no owner."""
        if self._owner_now() is None:
            return ""
        try:
            RunInfo.decode(self.run_file.read_bytes())
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            wrong = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else "is damaged"
            return (
                f"{self.run_file} {wrong}, so a run in progress would not be found; a run writes it anew when it starts"
            )
        return ""

    def _owner_now(self) -> str | None:
        """The id of the process that owns the home, empty where its lock does not name it; None: none owns it."""
        try:
            handle = os.open(self.path / "lock", os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _owner(handle)
        else:
            return None
        finally:
            os.close(handle)

    def agents(self) -> dict[str, str]:
        """The UUIDs of all agents ever made, by name; one with an unreadable file is left out."""
        found: dict[str, str] = {}
        for file in sorted((self.path / "agents").glob("*/agentuid")):
            with contextlib.suppress(OSError, ValueError):
                found[file.parent.name] = str(uuid.UUID(file.read_text(encoding="utf-8").strip()))
        return found

    def agentuid(self, agent: str) -> str:
        """The agent's own UUID: generated when the agent is made, the same for ever."""
        file = self.agent_dir(agent) / "agentuid"
        try:
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_whole(file, f"{uuid.uuid4()}\n")
            return str(uuid.UUID(file.read_text(encoding="utf-8").strip()))
        except OSError as error:
            raise HomeError(_sentence(file, error)) from error
        except ValueError:
            raise HomeError(
                f"{file} does not hold a UUID: put back the one that the agent had (in any of its events)"
            ) from None


def locked(handle: int) -> bool:
    """Take the lock of an open file, waiting a moment: a process that tests the lock holds it for an instant."""
    for _ in range(20):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return True
    return False


def _owner(handle: int) -> str:
    """The id of the process that wrote it into the lock file, as text."""
    return os.pread(handle, 20, 0).decode(errors="replace").strip()


def write_whole(file: Path, text: str, mode: int = 0o600) -> None:
    """Write a file atomically, synced to disk before this returns."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _sentence(path: Path, error: OSError) -> str:
    return f"{path} cannot be written ({error.strerror}): make room, mend its permissions, or choose another --home"
