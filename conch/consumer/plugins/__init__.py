"""Plug-ins: discovery of rules and consumers (also the built-in ones), and the processes that they run in."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
