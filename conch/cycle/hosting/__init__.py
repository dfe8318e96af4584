"""Agents in a process: made, run side by side, commanded from outside, watched while they publish."""
