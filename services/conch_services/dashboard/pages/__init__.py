"""One module a page: what it asks of the history, and its template."""

from conch_services.dashboard.pages import overview, witness

ROUTES = [
    *overview.ROUTES,
    *witness.ROUTES,
]
"""Every page there is."""
