"""Packages of a user's own."""

from tests.packages import install as install
