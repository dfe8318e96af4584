"""Secrets in texts: keys, tokens and passwords, found by their form, by their name and by their place."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
