"""An agent's life as a film: its acts replayed from the log, and what it did over the whole of it."""
