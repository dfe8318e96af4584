"""The runtime of one consumer: read, handle, publish, store the position; in that order."""
