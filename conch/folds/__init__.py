"""What every fold shares: the order of an agent's acts, the deduplication of fingerprints, fast model construction."""
