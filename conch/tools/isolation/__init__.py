"""Process isolation: bubblewrap, control groups, resource limits, and the killing of all descendants."""
