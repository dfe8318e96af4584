"""Settings of teams."""
