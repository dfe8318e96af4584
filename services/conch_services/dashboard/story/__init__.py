"""The story page: the whole life of an agent as one curve, what changed, what happens now, what needs a person."""
