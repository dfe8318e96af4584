"""Who may come in, from where, and with how much: what stands between the port and the application."""

from conch_services.dashboard.security.connection import TimedHttpProtocol
from conch_services.dashboard.security.guard import MOST_HEAD, RequestGuard

__all__ = ["MOST_HEAD", "RequestGuard", "TimedHttpProtocol"]
