"""An agent's memory of itself: folded from its events, written to checkpoints, recovered at the start."""
