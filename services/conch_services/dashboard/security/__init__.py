"""Who may come in, from where, and with how much: what stands between the port and the application."""

from conch_services.dashboard.security.connection import Impatient
from conch_services.dashboard.security.guard import Guard

__all__ = ["Guard", "Impatient"]
