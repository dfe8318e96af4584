"""Judges an adapter: samples of recorded decisions, the gate, the trial."""
