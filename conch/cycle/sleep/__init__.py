"""Sleep while there is nothing to do: when an agent falls asleep, what wakes it, and the wait between the two."""
