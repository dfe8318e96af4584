"""One module a page: what it asks of the history, and its template."""

from conch_services.dashboard.pages import overview

ROUTES = [*overview.ROUTES]
"""Every page there is."""
