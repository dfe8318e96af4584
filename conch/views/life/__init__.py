"""Figures of a life or a part of it: its trend, its verdict, what changed."""
