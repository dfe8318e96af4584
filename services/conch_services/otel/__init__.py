"""OpenTelemetry: every cycle a trace, every score an event on it, sent over OTLP/HTTP."""
