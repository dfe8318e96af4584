"""The tool `http`, with its protection against requests that reach the own network."""
