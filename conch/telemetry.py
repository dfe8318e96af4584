"""Logging: structlog to a rotated file, one event per line, with the ids of the event that is being handled."""

from __future__ import annotations

import json
import logging
import logging.handlers
import sys
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec
import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import Processor

from conch.config.model import LogSettings
from conch_schemas import Event, trace_id

BACKUPS = 3
"""Rotated files that are kept."""

OWN = "conch"
"""Name of the logger for Conch's own lines."""

handling: ContextVar[Event | None] = ContextVar("conch_handling", default=None)
"""The event that is being handled: log lines written meanwhile, by any module, get its agent, action and trace. Binding
the three values with structlog's own means takes as long as handling many an event."""


class _Formatter(ProcessorFormatter):
    """Formats other libraries' lines. Our own arrive complete: the rotating handler formats each record twice."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, including any traceback."""
        return str(record.msg) if record.name == OWN else super().format(record)


def configure(
    settings: LogSettings, file: Path | None, *, process: str, mask: Callable[[str], str] = lambda line: line
) -> None:
    """Send every log line of this process to `file` (stderr without one), rotated by size, as `mask` returns it. Call
    once, at the start.

    Lines of other libraries, by Python's own logging, get the same format, from the level warning on. A line that
    cannot be written is dropped: a full disk under the log ends no run.
    """
    size = int(settings.megabytes * 1_000_000)
    handler: logging.Handler = (
        logging.handlers.RotatingFileHandler(file, maxBytes=size, backupCount=BACKUPS, encoding="utf-8", delay=True)
        if file is not None
        else logging.StreamHandler(sys.stderr)
    )
    finished: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        about,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    write = _line if settings.format == "json" else structlog.dev.ConsoleRenderer(colors=False)

    def line(logger: Any, method: str, event: Any) -> str:
        return mask(str(write(logger, method, event)))

    others = [structlog.stdlib.add_logger_name, *finished]
    handler.setFormatter(
        _Formatter(processors=[ProcessorFormatter.remove_processors_meta, line], foreign_pre_chain=others)
    )
    root, own = logging.getLogger(), logging.getLogger(OWN)
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    own.setLevel(settings.level.upper())
    logging.getLogger("nats").setLevel(logging.CRITICAL)  # it prints tracebacks of errors that it recovers from
    logging.raiseExceptions = False
    structlog.configure(
        processors=[*finished, line],
        logger_factory=lambda *_: own,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.level.upper())),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)


def about(_: Any, __: str, line: Any) -> Any:
    """A structlog processor: adds agent, action and trace of the event that is being handled."""
    if (event := handling.get()) is not None:
        told = {"agent_id": event.agent, "action_id": event.action_id, "trace_id": trace_id(event.traceparent)}
        line = told | line
    return line


def _line(_: Any, __: str, event: Any) -> str:
    try:
        return msgspec.json.encode(event, enc_hook=repr).decode()
    except (TypeError, ValueError):
        return json.dumps(event, default=repr)  # for example with lone surrogates
