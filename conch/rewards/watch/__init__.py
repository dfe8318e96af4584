"""Watchers against reward hacking: what the newest experiences of an agent look like beside the earlier ones."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
