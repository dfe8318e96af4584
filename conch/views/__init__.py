"""What is shown of a run, as words and JSON values: the same for the commands, the HTTP API and the pages."""
