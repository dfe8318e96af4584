"""Git repositories in the workspace: what a program may not make git run."""
