"""Texts of files for the tool `filesystem`: shown in part with line numbers, changed in place, kept outputs."""
