"""The progress consumer: scores each step of a task, and writes the log of each episode."""
