"""Plug-ins: how rules and consumers are found, the built-in ones too, and how they run beside Conch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
