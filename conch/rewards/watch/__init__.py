"""Watchers against reward hacking: statistics of an agent's newest experiences compared with earlier ones."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
