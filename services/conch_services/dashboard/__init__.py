"""The dashboard: what the agent does, what it earns and why, live on a page."""
