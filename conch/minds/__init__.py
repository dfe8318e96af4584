"""Minds: the decision models of an agent (bandit, LLM endpoint, script). Each returns raw text for the one parser."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
