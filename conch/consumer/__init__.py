"""Declaring consumers, and the runtime that reads, handles, publishes and stores the position for each of them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
