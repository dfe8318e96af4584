"""A small model as a mind: how well and how fast it decides, and with what prompts, beside the reflex mind."""
