"""Plug-ins: discovery of rules and consumers (also the built-in ones), and the processes that they run in."""
