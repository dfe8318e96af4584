"""One module a page: what it asks of the history, and its template."""

from conch_services.dashboard.pages import cycle, overview, witness

ROUTES = [
    *overview.ROUTES,
    *cycle.ROUTES,
    *witness.ROUTES,
]
"""Every page there is."""
