"""Rules and consumers from outside: where they come from, and the built-in ones, which are found in the same way."""
