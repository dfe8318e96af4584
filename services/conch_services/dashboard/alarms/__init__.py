"""The alarms of all agents: what is on now, what was, and that a person has seen it."""
