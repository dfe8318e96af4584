"""The watch consumer: alarms over what the rewards of an agent look like."""
