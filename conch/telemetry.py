"""Log lines: a fact each, to a rotated file, with the action's id bound once."""

from __future__ import annotations

import json
import logging
import logging.handlers
import sys
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog

from conch.config.model import LogSettings
from conch_schemas import Event, trace_id

BACKUPS = 3
"""Old files that are kept."""

handling: ContextVar[Event | None] = ContextVar("conch_handling", default=None)
"""The event that is being handled: a line that is logged meanwhile, by whomever, tells whose act it is about. To bind
the three values by structlog's own means takes as long as many an event."""


class _RotatingLogFile(logging.handlers.RotatingFileHandler):
    """Takes lines as they are, beside records: a record and its way to a file cost three times what a line does."""

    _size = 0

    def write(self, line: str) -> None:
        """A line, at once. Never raises: a full disk under the log ends no run."""
        try:
            self._write(line)
        except OSError:
            self._size = 0

    def _write(self, line: str) -> None:
        if 0 < self.maxBytes < self._size + len(line):
            self.doRollover()
        if self.stream is None:
            self.stream = self._open()
            self._size = self.stream.tell()
        self.stream.write(line + "\n")
        self.stream.flush()
        self._size += len(line) + 1

    def emit(self, record: logging.LogRecord) -> None:
        """What others log by Python's own means."""
        self.write(self.format(record))


class _ConsoleHandler(logging.StreamHandler[Any]):
    def write(self, line: str) -> None:
        """A line on stderr."""
        print(line, file=sys.stderr, flush=True)


class _StandardLibraryLogs(logging.Formatter):
    """What others log by Python's own means, as a line like ours."""

    def __init__(self, line: Callable[[Any, str, Any], Any]) -> None:
        super().__init__()
        self._line_of = line

    def format(self, record: logging.LogRecord) -> str:
        """One line, a traceback in it too."""
        event = {"event": record.getMessage(), "logger": record.name, "level": record.levelname.lower()}
        event = about(None, "", event | structlog.contextvars.get_contextvars())
        event["timestamp"] = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return str(self._line_of(None, "", event))


class _Logger:
    """What structlog hands its lines to."""

    def __init__(self, to: _RotatingLogFile | _ConsoleHandler) -> None:
        self.msg = self.debug = self.info = self.warning = self.error = self.critical = self.exception = to.write


def configure(settings: LogSettings, file: Path | None, *, process: str) -> None:
    """Send every line of this process to `file` (stderr without one), rotated by size. Call once, at the start."""
    size = int(settings.megabytes * 1_000_000)
    handler: _RotatingLogFile | _ConsoleHandler = (
        _RotatingLogFile(file, maxBytes=size, backupCount=BACKUPS, encoding="utf-8", delay=True)
        if file is not None
        else _ConsoleHandler(sys.stderr)
    )
    line = _line if settings.format == "json" else structlog.dev.ConsoleRenderer(colors=False)
    handler.setFormatter(_StandardLibraryLogs(line))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("nats").setLevel(logging.CRITICAL)  # it prints tracebacks of what it survives
    logging.raiseExceptions = False
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            about,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            line,
        ],
        logger_factory=lambda *_: _Logger(handler),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.level.upper())),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)


def about(_: Any, __: str, line: Any) -> Any:
    """A step of structlog's: the agent, the action and the trace of the event that is being handled."""
    if (event := handling.get()) is not None:
        told = {"agent_id": event.agent, "action_id": event.action_id, "trace_id": trace_id(event.traceparent)}
        line = told | line
    return line


def _line(_: Any, __: str, event: Any) -> str:
    try:
        return msgspec.json.encode(event, enc_hook=repr).decode()
    except (TypeError, ValueError):
        return json.dumps(event, default=repr)  # with lone surrogates, say
