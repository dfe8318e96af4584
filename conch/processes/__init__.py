"""The process tree of a run: the supervisor, its children, and the messages between them."""
