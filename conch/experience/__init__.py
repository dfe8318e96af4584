"""Experiences: acts joined with everything that was said of them, kept as long as the disk holds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
