"""The data sets of the home, as a page."""
