"""Forks: other decisions for a recorded prompt, each tried and scored in a copy of the workspace as it was."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
