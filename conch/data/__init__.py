"""Data sets: experiences as rows that trainers take, each of which leads back to its acts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
