"""Rules and consumers that do not come with Conch: how they run beside it, and what they may publish."""
