"""Access control of the dashboard: the guard between port and application, sessions, names of the page, rate limit."""

from conch_services.dashboard.security.connection import TimedHttpProtocol
from conch_services.dashboard.security.guard import MOST_HEAD, RequestGuard

__all__ = ["MOST_HEAD", "RequestGuard", "TimedHttpProtocol"]
