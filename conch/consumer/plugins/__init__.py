"""Plug-in rules: how they are found, the processes that run them, their state, and scoring the past with them."""
