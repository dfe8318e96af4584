"""Goals that the reflex mind proposes by itself."""
