"""An act that waits for a person's approval: the decision on it, and the wait for that."""
