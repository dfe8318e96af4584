"""The pages of the dashboard, one module each: its queries to the history, and its template."""

from conch_services.dashboard.pages import (
    approval,
    bus,
    chat,
    cycle,
    cycles,
    memory,
    needs,
    overview,
    review,
    review_rows,
    rewards,
    settings,
    state,
    training,
    witness,
)

ROUTES = [
    *overview.ROUTES,
    *approval.ROUTES,
    *bus.ROUTES,
    *chat.ROUTES,
    *cycle.ROUTES,
    *cycles.ROUTES,
    *memory.ROUTES,
    *needs.ROUTES,
    *review.ROUTES,
    *review_rows.ROUTES,
    *rewards.ROUTES,
    *settings.ROUTES,
    *state.ROUTES,
    *training.ROUTES,
    *witness.ROUTES,
]
"""Every page there is."""
