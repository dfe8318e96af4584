"""How the workers of one consumer share its agents: positions, membership, lag."""
