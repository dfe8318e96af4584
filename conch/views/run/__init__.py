"""Views of a home and its run: processes, consumers, bus, settings, checks."""
