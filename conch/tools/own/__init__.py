"""Tools of a person's own files: declared with `@tool`, run in a process of their own."""
