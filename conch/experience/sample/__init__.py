"""Samples of experiences, for training: uniform, recent, prioritised, balanced."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
