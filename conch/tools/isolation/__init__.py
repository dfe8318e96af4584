"""The sandbox: bubblewrap and control groups around a program, limits on it, and its end."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
