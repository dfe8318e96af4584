"""What is shown of a run, as words and JSON values: the same for the commands, the HTTP API and the pages."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
