"""Operation of a bus and its consumers: stream retention, bus permissions, exporters, alarms."""
