"""Serving adapters: loads LoRA adapters into the engine that acts, under a name for each, and proves which one acts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
