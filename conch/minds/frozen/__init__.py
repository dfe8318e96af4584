"""Generations of the reflex mind: its parameters, frozen in files by digest, and what each would have chosen."""
