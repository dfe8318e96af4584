"""The logger of every module: silent until the program configures structlog, as is usual for a library.

Without configuration structlog prints each line to stdout. A program that embeds Conch would find a line for each event
there. The commands of Conch configure structlog (`conch.telemetry`); a program may, by `structlog.configure`.
"""

from __future__ import annotations

import logging
from typing import Any

import structlog


def get_logger(name: str) -> Any:
    """A structlog logger for the module `name`. It uses the present configuration at each call; `bind` returns a logger
    that keeps the configuration of that moment."""
    return _Logger(structlog.get_logger(name))


class _Logger:
    def __init__(self, configured: Any) -> None:
        self._configured = configured

    def __getattr__(self, method: str) -> Any:
        return getattr(self._configured if structlog.is_configured() else _SILENT, method)


def _drop(*_: Any) -> Any:
    raise structlog.DropEvent


_SILENT = structlog.wrap_logger(
    None, processors=[_drop], wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)
