"""The prompts for a mind: the sections of a question as text, fitted to a budget of tokens. Pure."""
