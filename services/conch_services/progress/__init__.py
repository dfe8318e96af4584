"""The progress consumer: what each step of a task was worth, and the log of each episode."""
