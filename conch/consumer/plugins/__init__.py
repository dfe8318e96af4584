"""Plug-ins: how rules and consumers are found, the built-in ones too, and how they run beside Conch."""
