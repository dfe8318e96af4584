"""What operators use: stream retention, bus permissions, exporters, alarms."""
