"""Who listens: one folder per deployable consumer. None imports another."""
