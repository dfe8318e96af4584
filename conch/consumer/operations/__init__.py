"""Operation of a bus and its consumers: stream retention, bus permissions, exporters, alarms."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
