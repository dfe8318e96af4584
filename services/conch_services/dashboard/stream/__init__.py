"""What the dashboard takes from the bus: frames for pages that are open, latencies, conversations, goals of the past."""
