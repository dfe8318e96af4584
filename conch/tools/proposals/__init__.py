"""Goals that the agent proposes: the tool `goal`, and what is refused of a proposal."""
