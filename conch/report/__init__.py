"""Reports: one signed HTML page of a cycle, of a run, or of two of them side by side, that opens without Conch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
