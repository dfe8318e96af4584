"""What people do to an agent from outside: tell it something, give it goals, score what it did, settle its letters."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
