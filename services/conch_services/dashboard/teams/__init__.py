"""The page of a team: who talks to whom, the topology over time, tokens and reward by role, the conversation."""
