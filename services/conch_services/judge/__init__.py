"""The judges: each a consumer of its own, so that a model's slowness is nobody else's."""
