"""The built-in consumers and services: one folder per deployable consumer. None imports another."""
