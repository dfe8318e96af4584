"""All agents of the home in one table."""
