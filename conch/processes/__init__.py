"""The process tree of a run: the supervisor, its child processes, and the messages between them.

`messages`: start specs, commands and reports; `rule_messages`: the lines between a rule's consumer and its process;
`line`: how a line is written and read.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
