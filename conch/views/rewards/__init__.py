"""Views of rewards: the parts of the total with their weights, rules and alarms."""
