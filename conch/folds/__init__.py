"""What every fold shares: the order of an agent's acts, the deduplication of fingerprints, fast model construction."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
