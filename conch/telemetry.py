"""Log lines: a fact each, to a rotated file, with the action's id bound once."""

from __future__ import annotations

import logging
import logging.handlers
import sys
from pathlib import Path
from typing import Any

import structlog

from conch.config.model import LogSettings


def configure(settings: LogSettings, file: Path | None, *, process: str) -> None:
    """Send every line of this process to `file` (stderr without one), rotated by size. Call once, at the start."""
    handler: logging.Handler = (
        logging.handlers.RotatingFileHandler(
            file, maxBytes=int(settings.megabytes * 1_000_000), backupCount=3, encoding="utf-8", delay=True
        )
        if file is not None
        else logging.StreamHandler(sys.stderr)
    )
    handler.setFormatter(logging.Formatter("%(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for ours in ("conch", "conch_services"):
        logging.getLogger(ours).setLevel(settings.level.upper())
    logging.getLogger("nats").setLevel(logging.CRITICAL)  # it prints tracebacks of what it survives
    logging.raiseExceptions = False  # a full disk under the log ends no run
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if settings.format == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=_logger,
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)


def _logger(*args: Any) -> logging.Logger:
    return logging.getLogger(args[0] if args else "conch")
