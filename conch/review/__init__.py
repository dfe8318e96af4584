"""Review of rows of training data by people: which row next, what was decided, which rows may be used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
