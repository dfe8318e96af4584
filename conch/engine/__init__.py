"""The engine of the mind `local`: llama.cpp's server in a process of its own, and the model files that it serves."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
