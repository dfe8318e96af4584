"""The alerts consumer: tells a webhook when an agent waits at its budget's limit, and when an alarm begins."""
