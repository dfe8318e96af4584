"""What the experience store can be asked: columns for charts, rows for lists, acts to score anew, removed cycles."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
