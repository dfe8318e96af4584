"""An agent's memory: folded from its events, written to checkpoints, recovered at the start."""
