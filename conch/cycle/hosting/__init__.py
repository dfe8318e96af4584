"""Hosts several agents in one process: construction, concurrent cycles, control requests, publish monitoring."""
