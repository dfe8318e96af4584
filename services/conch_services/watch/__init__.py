"""The watch consumer: raises alarms on suspicious patterns in an agent's rewards."""
