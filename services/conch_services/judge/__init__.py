"""The judges: models that score acts, each a consumer of its own, so that a slow model delays no other consumer."""
