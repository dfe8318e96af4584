"""What a name on a page stands for, in short: for the panel beside it, and as a page."""
