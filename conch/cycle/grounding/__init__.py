"""Grounding: a thought's claims checked against workspace, memory, tools and sensors."""
