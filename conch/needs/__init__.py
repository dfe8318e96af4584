"""Needs: what there is, how it changes with what happens, what that is worth."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
