"""The rules of the reward, the constitution, the weight set and the total: pure functions of values."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
