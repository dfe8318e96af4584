"""Consumer groups: how the workers of one consumer share its agents, by positions, membership and lag."""
