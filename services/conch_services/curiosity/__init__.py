"""The curiosity consumer: novelty, the drives, and the part *exploration*."""
