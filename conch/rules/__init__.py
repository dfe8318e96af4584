"""Reward rules: how one is declared and described, how its answer becomes a verdict, and how several make one reward.

Pure: nothing here reads a bus, a store or a network, and no state is kept between two calls. Composition is public as
`conch.rewards.compose`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
