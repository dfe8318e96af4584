"""A team in the cycle of one agent: each cycle is a step, and one role has the turn."""
