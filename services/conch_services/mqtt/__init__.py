"""MQTT: every fact to a broker, and what devices say to the agent."""
