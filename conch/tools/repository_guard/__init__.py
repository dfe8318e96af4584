"""Protection of git repositories in the workspace: a program cannot make git outside the sandbox run its code."""
