"""An agent's budget: what it used within an hour and a day, and the wait at a limit."""
