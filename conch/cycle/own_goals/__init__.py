"""Goals that the agent sets itself: their bounds, the event of a proposal, and a person's decision on one."""
