"""The sandbox: bubblewrap and control groups around a program, limits on it, and its end."""

from .sandbox import Sandbox as Sandbox
