"""Requests of people to an agent: messages, goals, human scores, and retries of dead letters."""
