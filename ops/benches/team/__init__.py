"""The bench of teams: controller, router, switches, steps, kills, and what the learnt controller is worth."""
