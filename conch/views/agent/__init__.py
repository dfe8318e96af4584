"""Views of what an agent does, and of what people say to it: cycles, goals, needs, memories, requests, teams."""
