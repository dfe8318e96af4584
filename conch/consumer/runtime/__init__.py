"""The runtime of one consumer: read, handle, publish, store the position; in that order."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
