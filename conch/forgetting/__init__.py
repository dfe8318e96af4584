"""Removal of a person's data from all that a home holds: `conch forget`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
