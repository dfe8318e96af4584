"""Constraints on a decision: the forms in which endpoints take one, how an endpoint's form is found, and its record."""
