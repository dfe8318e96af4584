"""What the dashboard takes from the bus: frames for open pages, latencies, conversations, goals of the past."""
